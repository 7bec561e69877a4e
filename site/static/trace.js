// The steps of a cell, its changes and its log, fetched when a reader asks for one of them.
// Without this, every link leads to the file that holds them all.
"use strict";

(() => {
  const home = document.getElementById("trace");
  const PARTS = ["steps", "changes", "log"];
  let loading = null;

  async function load() {
    const answer = await fetch(home.dataset.trace);
    if (!answer.ok) throw new Error(String(answer.status));
    // A document without a window: what is in it does not run, and every text in it was escaped when it was made.
    // Its own style stays behind, which the policy of this page forbids.
    const text = await answer.text();
    const found = new DOMParser().parseFromString(text.slice(text.indexOf("<main>"), text.lastIndexOf("</main>")), "text/html");
    for (const name of PARTS) {
      const part = found.getElementById(name), here = document.getElementById(name);
      if (!part || !here) continue;
      part.querySelectorAll("details[open]").forEach(it => it.removeAttribute("open"));
      here.replaceChildren(...document.importNode(part, true).childNodes);
    }
  }

  async function show(name) {
    home.setAttribute("aria-busy", "true");
    try {
      await (loading ||= load());
    } finally {
      home.removeAttribute("aria-busy");
    }
    const target = document.getElementById(name);
    if (!target) return;
    const details = target.closest("details");
    if (details) details.open = true;
    const line = details ? details.querySelector("summary") : target;
    line.scrollIntoView({block: "start"});
    if (details) line.focus({preventScroll: true});
  }

  document.addEventListener("click", event => {
    const link = event.target.closest("a[data-part]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    show(link.dataset.part).then(
      () => history.replaceState(null, "", `#${link.dataset.part}`), () => { location.href = link.href; });
  });
  const asked = location.hash.slice(1);
  if (/^(step|file)-\d+$/.test(asked)) show(asked).catch(() => {});
})();
