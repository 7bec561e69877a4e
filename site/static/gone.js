// On the page of what is not here: which case an old address of a cell was of. Without this, the list has every case.
"use strict";

(() => {
  // An address is anybody's to write: nothing of it that a shell or SQL would read goes into a command to be copied.
  const found = /\/runs\/([\w.-]+)\/([\w.-]+)-[0-9a-f]{16}\.html$/.exec(location.pathname);
  if (!found) return;
  const [run, cell] = found.slice(1);
  const links = [...document.querySelectorAll("a[data-case]")].filter(it => cell.startsWith(`${it.dataset.case}-`));
  const link = links.sort((one, other) => other.dataset.case.length - one.dataset.case.length)[0];
  if (!link) return;
  const home = document.getElementById("gone");
  const [name, command] = home.querySelectorAll("code");
  home.querySelector("a").href = link.href;
  home.querySelector("a").textContent = link.textContent;
  name.textContent = run;
  command.textContent = `ml-dev-bench results query --results REPOSITORY "SELECT * FROM records WHERE run = '${run}'`
    + ` AND case_id = '${link.dataset.case}'"`;
  home.hidden = false;
})();
