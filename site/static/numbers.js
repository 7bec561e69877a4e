// Figures as the pages have them (bench/pages/words.py): a tie goes to the even digit, so that no two pages disagree.
"use strict";

const figures = (() => {
  const SEEN = 40; // digits behind those that are shown: toFixed is exact, and takes ties up

  function form(value, digits) {
    const exact = value.toFixed(digits + SEEN);
    const kept = exact.slice(0, -SEEN).replace(/\.$/, "");
    return /^50*$/.test(exact.slice(-SEEN)) && /[02468]$/.test(kept) ? kept : value.toFixed(digits);
  }
  const percent = value => value === null ? "–" : `${form(100 * value, 0)}%`;
  const points = value => `${value < 0 ? "−" : "+"}${form(Math.abs(100 * value), 0)}`;
  const score = value => value === null ? "–" : form(value, 2);
  const usd = value => value === null ? "–" : value === 0 ? "$0" : value < 0.0005 ? "<$0.001"
    : value < 1 ? `$${form(value, 3)}` : `$${form(value, 2).replace(/\B(?=(\d{3})+\.)/g, ",")}`;
  return {percent, points, score, usd};
})();
