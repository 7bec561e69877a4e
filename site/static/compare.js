// Compares two to four agents. Every difference and interval was worked out when the site was built.
"use strict";

(() => {
  const home = document.getElementById("compare");
  const plain = document.getElementById("compare-plain");
  const root = home.dataset.root;
  const MOST = 4;
  const address = new URL(location.href);
  const parts = new Map();

  function element(tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }
  const {percent, points, score, usd} = figures;
  const brief = text => text.length > 48 ? `${text.slice(0, 47)}…` : text;
  const titled = agent => brief(agent.model ? `${agent.agent} · ${agent.model.split("/").pop()}` : agent.agent);

  async function read(path) {
    const answer = await fetch(root + path);
    if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
    return answer.json();
  }
  async function pairs(key) {
    if (!parts.has(key)) parts.set(key, read(`data/pairs/${key}.json`));
    return parts.get(key);
  }

  function table(caption, heads, rows) {
    const line = (cells, tag) => element("tr", {}, ...cells.map((cell, at) => {
      const made = element(tag === "th" || at === 0 ? "th" : "td", tag === "th" ? {scope: "col"} : at === 0 ? {scope: "row"} : {});
      if (at) made.className = "num";
      if (at && tag === "td") made.dataset.label = heads[at];
      made.append(cell);
      return made;
    }));
    return element("div", {class: "scroll", role: "region", tabindex: "0", "aria-label": caption}, element("table", {class: "list stack"},
      element("caption", {}, caption), element("thead", {}, line(heads, "th")),
      element("tbody", {}, ...rows.map(row => line(row, "td")))));
  }

  function difference(one, other, data) {
    const mine = data.get(one.key).ahead_of[other.key], its = data.get(other.key).ahead_of[one.key];
    if (mine) return mine;
    return its ? [-its[0], its[2] === null ? null : -its[2], its[1] === null ? null : -its[1], its[3], its[5], its[4]] : null;
  }

  function pairRows(chosen, data) {
    const rows = [];
    chosen.forEach((one, at) => chosen.slice(at + 1).forEach(other => {
      const it = difference(one, other, data);
      if (!it) return;
      const sure = it[1] !== null && (it[1] > 0 || it[2] < 0);
      rows.push([`${titled(one)} less ${titled(other)}`, points(it[0]), it[1] === null ? "no interval" : `${points(it[1])} to ${points(it[2])}`,
        sure ? element("b", {}, it[0] > 0 ? "▲ surely ahead" : "▼ surely behind") : "cannot be told apart", `${it[4]} : ${it[5]}`, String(it[3])]);
    }));
    return rows;
  }

  function caseRows(chosen, data, titles) {
    const known = [...new Set(chosen.flatMap(agent => Object.keys(data.get(agent.key).cases)))];
    const spread = id => {
      const values = chosen.map(agent => (data.get(agent.key).cases[id] || [null])[0]).filter(value => value !== null);
      return values.length > 1 ? Math.max(...values) - Math.min(...values) : -1;
    };
    return known.map(id => [spread(id), id]).sort((a, b) => b[0] - a[0] || a[1].localeCompare(b[1])).map(([apart, id]) => [
      element("a", {href: `${root}cases/${id}.html`}, titles[id] || id),
      ...chosen.map(agent => {
        const it = data.get(agent.key).cases[id];
        return it ? element("span", apart >= 0.5 ? {class: "moved"} : {}, `${percent(it[0])} of ${it[3]}, ${usd(it[2])}`) : "–";
      })]);
  }

  async function show(agents, titles, keys) {
    const chosen = keys.map(key => agents.find(agent => agent.key === key)).filter(Boolean);
    const out = element("div", {id: "compared", "aria-live": "polite"});
    // In one step, whole: what comes bit by bit moves what is read already.
    const place = () => { document.getElementById("compared")?.remove(); home.append(out); };
    if (chosen.length < 2) {
      out.append(element("p", {class: "notice"}, "Choose at least two agents of the same profile."));
      place();
      return;
    }
    const data = new Map();
    for (const agent of chosen) data.set(agent.key, await pairs(agent.key));
    const names = chosen.map(titled);
    out.append(element("h2", {}, "Is the difference real?"),
      table("Success of one less that of the other, over the cases that both met, in points of per cent", ["Pair", "Difference", "95% interval", "Finding", "Cases ahead : behind", "Cases"], pairRows(chosen, data)),
      element("h2", {}, "Side by side"),
      table("Means over cases", ["Measure", ...names], [
        ["Success", ...chosen.map(it => percent(it.success))],
        ["95% interval", ...chosen.map(it => it.success_low === null ? "–" : `${percent(it.success_low)} to ${percent(it.success_high)}`)],
        ["Score", ...chosen.map(it => score(it.score))],
        ["Cost per cell", ...chosen.map(it => usd(it.cost_usd))],
        ["Cost per success", ...chosen.map(it => usd(it.per_success_usd))],
        ["Cases met", ...chosen.map(it => `${it.covered} of ${it.suite}`)]]),
      element("h2", {}, "Case by case"),
      table("Success and cost for a cell; those that differ most come first, bold by half or more", ["Case", ...names], caseRows(chosen, data, titles)));
    place();
  }

  async function start() {
    plain.remove();
    const {agents, cases} = await read("data/agents.json");
    if (agents.length < 2) {
      home.append(element("p", {class: "notice"}, "Fewer than two agents compete: there is nothing to compare."));
      return;
    }
    const asked = (address.searchParams.get("with") || "").split(",").filter(key => agents.some(agent => agent.key === key));
    const profile = asked.length ? asked[0].split("/")[0] : agents[0].profile;
    const keys = asked.filter(key => key.startsWith(`${profile}/`)).slice(0, MOST);
    for (const agent of agents) {
      if (keys.length >= 2) break;
      if (agent.profile === profile && !keys.includes(agent.key)) keys.push(agent.key);
    }
    const chooser = element("div", {class: "chooser"});
    const profiles = [...new Set(agents.map(agent => agent.profile))];
    const selects = [];
    const fill = (profile, values) => selects.forEach((select, at) => {
      select.replaceChildren(element("option", {value: ""}, "–"),
        ...agents.filter(agent => agent.profile === profile).map(agent => element("option", {value: agent.key}, titled(agent))));
      select.value = values[at] || "";
    });
    const changed = () => {
      const values = [...new Set(selects.map(select => select.value).filter(Boolean))];
      address.searchParams.set("with", values.join(","));
      history.replaceState(null, "", address);
      show(agents, cases, values);
    };
    if (profiles.length > 1) {
      const select = element("select", {}, ...profiles.map(name => element("option", {value: name}, name)));
      select.value = profile;
      select.addEventListener("change", () => {
        fill(select.value, agents.filter(agent => agent.profile === select.value).slice(0, 2).map(agent => agent.key));
        changed();
      });
      chooser.append(element("label", {}, "Profile", select));
    }
    for (let at = 0; at < MOST; at++) {
      const select = element("select", {});
      select.addEventListener("change", changed);
      selects.push(select);
      chooser.append(element("label", {}, at < 2 ? `Agent ${at + 1}` : `Agent ${at + 1}, if any`, select));
    }
    fill(profile, keys);
    await show(agents, cases, keys);
    home.prepend(chooser);
  }

  start().catch(() => { home.replaceChildren(plain); });
})();
