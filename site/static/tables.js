// Sorting, searching and filtering of tables with data-tools, whose value names them in the address.
// The page is complete without this: rows only move and hide.
"use strict";

(() => {
  const FILTERS = {
    model: "Model", weights: "Weights", suite: "Suite", source: "From", category: "Category", tag: "Tag",
  };
  const address = new URL(location.href);

  function remember(name, value) {
    if (value) address.searchParams.set(name, value);
    else address.searchParams.delete(name);
    history.replaceState(null, "", address);
  }

  function element(tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  function valueOf(row, column) {
    const cell = row.cells[column];
    if (!cell) return "";
    return cell.dataset.v !== undefined ? cell.dataset.v : cell.textContent.trim();
  }

  // Numbers before texts, what is empty last in either direction.
  function compare(one, other, sign) {
    if (one === "" || other === "") return (one === "") - (other === "");
    const a = Number(one), b = Number(other);
    const known = !Number.isNaN(a) && !Number.isNaN(b);
    return sign * (known ? a - b : one.localeCompare(other));
  }

  function enhance(table) {
    const name = table.dataset.tools;
    const bodies = [...table.tBodies];
    const rows = bodies.flatMap(body => [...body.rows].filter(row => !row.classList.contains("group")));
    if (rows.length < 2) return;
    const original = new Map(rows.map((row, at) => [row, at]));
    const state = {sort: "", q: ""};
    const said = element("span", {class: "said", role: "status"});
    const tools = element("div", {class: "tools", role: "search", "aria-label": table.caption ? table.caption.textContent : name});

    const headings = [...table.tHead.rows[0].cells];
    headings.forEach((heading, column) => {
      const button = element("button", {type: "button", class: "sort"});
      button.append(...heading.childNodes);
      heading.append(button);
      button.addEventListener("click", () => {
        const [at, sign] = state.sort ? [Math.abs(state.sort) - 1, Math.sign(state.sort)] : [-1, 0];
        const first = rows.some(row => valueOf(row, column) && Number.isNaN(Number(valueOf(row, column)))) ? 1 : -1;
        state.sort = at !== column ? first * (column + 1) : sign === first ? -first * (column + 1) : "";
        remember(name + ".sort", String(state.sort));
        show();
      });
    });

    const choosers = {};
    if (rows.length > 5) {
      const box = element("input", {type: "search", autocomplete: "off"});
      tools.append(element("label", {}, "Search", box));
      box.value = state.q = address.searchParams.get(name + ".q") || "";
      box.addEventListener("input", () => { state.q = box.value; remember(name + ".q", box.value); show(); });
    }
    for (const [key, label] of Object.entries(FILTERS)) {
      const values = [...new Set(rows.flatMap(row => (row.dataset[key] || "").split("|")).filter(Boolean))].sort();
      if (values.length < 2) continue;
      const select = element("select", {}, element("option", {value: ""}, "all"),
        ...values.map(value => element("option", {value}, value)));
      select.value = address.searchParams.get(`${name}.${key}`) || "";
      if (select.selectedIndex < 0) select.value = "";
      select.addEventListener("change", () => { remember(`${name}.${key}`, select.value); show(); });
      tools.append(element("label", {}, label, select));
      choosers[key] = select;
    }
    let since = null;
    if (rows.some(row => row.dataset.day) && new Set(rows.map(row => row.dataset.day)).size > 1) {
      since = element("input", {type: "date"});
      since.value = address.searchParams.get(name + ".since") || "";
      since.addEventListener("change", () => { remember(name + ".since", since.value); show(); });
      tools.append(element("label", {}, "Since", since));
    }
    const asked = Number(address.searchParams.get(name + ".sort"));
    if (Number.isInteger(asked) && asked && Math.abs(asked) <= headings.length) state.sort = asked;

    function wanted(row) {
      const words = state.q.toLowerCase().split(/\s+/).filter(Boolean);
      const text = row.textContent.toLowerCase();
      return words.every(word => text.includes(word))
        && Object.entries(choosers).every(([key, select]) =>
          !select.value || (row.dataset[key] || "").split("|").includes(select.value))
        && (!since || !since.value || (row.dataset.day || "") >= since.value);
    }

    function show() {
      const column = Math.abs(state.sort) - 1, sign = Math.sign(state.sort);
      headings.forEach((heading, at) => {
        if (state.sort && at === column) heading.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
        else heading.removeAttribute("aria-sort");
      });
      for (const body of bodies) {
        const own = [...body.rows].filter(row => original.has(row));
        own.sort((one, other) => (state.sort ? compare(valueOf(one, column), valueOf(other, column), sign) : 0)
          || original.get(one) - original.get(other));
        body.append(...own);
      }
      let count = 0;
      for (const row of rows) {
        row.hidden = !wanted(row);
        count += !row.hidden;
      }
      for (const body of bodies) {
        for (const group of body.querySelectorAll("tr.group"))
          group.hidden = ![...body.rows].some(row => original.has(row) && !row.hidden);
      }
      const sorted = state.sort ? `, sorted by ${headings[column].textContent}, ${sign > 0 ? "lowest" : "highest"} first` : "";
      said.textContent = count < rows.length || state.sort ? `${count} of ${rows.length} rows${sorted}` : "";
    }

    tools.append(said);
    const frame = table.closest(".frame, .scroll") || table;
    frame.before(tools);
    show();
  }

  document.querySelectorAll("table[data-tools]").forEach(enhance);
  document.addEventListener("table-made", event => enhance(event.target));
})();
