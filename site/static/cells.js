// Cells beyond those that the page lists, fetched by month when a reader asks for one.
// Without this, every link leads to the same cells as plain data.
"use strict";

(() => {
  const HEADS = [["Agent"], ["Verdict"], ["Score", "num"], ["Profile", "p2"], ["Trial", "num p2"], ["Ended by", "p2"],
    ["Cost", "num"], ["Steps", "num p2"], ["Started (UTC)"]];

  function made(tag, words, classes, attributes = {}) {
    const it = document.createElement(tag);
    if (classes) it.className = classes;
    for (const [name, value] of Object.entries(attributes)) it.setAttribute(name, value);
    if (words !== undefined) it.textContent = words;
    return it;
  }

  function money(usd, status) {
    if (status === "unknown" || usd === null) return "unknown";
    return (status === "estimated" ? "≈" : "") + figures.usd(usd) + (status === "simulated" ? " replayed" : "");
  }

  function verdict(name) {
    const [kind, sign] = {success: ["pass", "✓"], failed: ["fail", "✗"]}[name] || ["lost", "◌"];
    const it = made("span", undefined, `verdict ${kind}`);
    it.append(made("span", sign, "", {"aria-hidden": "true"}), ` ${name}`);
    return it;
  }

  function line(found, row) {
    const it = Object.fromEntries(found.columns.map((name, at) => [name, row[at]]));
    const [agent, model, profile] = found.entrants[it.entrant];
    const who = made("th", undefined, "", {scope: "row"});
    who.append(agent, " ", made("span", model, "model"));
    const tr = made("tr", undefined, "", {"data-model": model, "data-day": it.started.slice(0, 10)});
    const cell = (at, words, value) => made("td", words, HEADS[at][1], {"data-label": HEADS[at][0], "data-v": value ?? ""});
    tr.append(who, cell(1, "", it.verdict), cell(2, figures.score(it.score), it.score),
      cell(3, profile, profile), cell(4, it.trial, it.trial), cell(5, it.ended.replaceAll("_", " ") || "–", it.ended),
      cell(6, money(it.cost_usd, it.cost_status), it.cost_usd), cell(7, it.steps, it.steps),
      cell(8, it.started.slice(0, 16).replace("T", " "), it.started));
    tr.cells[1].append(verdict(it.verdict));
    return tr;
  }

  async function show(link) {
    const answer = await fetch(link.href);
    if (!answer.ok) throw new Error(String(answer.status));
    const found = await answer.json();
    const table = made("table", undefined, "list stack", {"data-tools": "month", id: "month"});
    const head = made("tr");
    head.append(...HEADS.map(([name, kind]) => made("th", name, kind, {scope: "col"})));
    const body = made("tbody");
    body.append(...found.rows.toReversed().map(row => line(found, row)));
    table.append(made("caption", `Cells of ${link.textContent}, the newest first`), made("thead"), body);
    table.tHead.append(head);
    const frame = made("div", undefined, "frame");
    frame.append(table);
    const home = document.getElementById("month-cells");
    home.replaceChildren(frame);
    table.dispatchEvent(new CustomEvent("table-made", {bubbles: true}));
    home.focus();
  }

  document.addEventListener("click", event => {
    const link = event.target.closest("a[data-cells]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    show(link).catch(() => { location.href = link.href; });
  });
})();
