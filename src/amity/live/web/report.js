// A report shows the same parts from what is written into it, and lets its pictures and tables be
// saved. Without JavaScript it is a page of pictures and tables.
"use strict";
var amity = globalThis.amity || (globalThis.amity = {});

// What a report holds, asked in the way of a live page.
amity.Written = class {
  constructor(data, heard) {
    this.data = data;
    queueMicrotask(() => heard(data.messages));
  }

  async get(path, asked) {
    if (path === "round") return this.data.rounds[asked.cell]?.[asked.round] ?? null;
    if (path === "peer") return this.data.peers[asked.cell]?.[asked.peer] ?? null;
    return this.data.tables[asked.group] ?? null;
  }

  // Of a long run not every round is written down: the nearest that is.
  nearest(cell, round, least = 0) {
    const kept = Object.keys(this.data.rounds[cell?.id] || {}).map(Number);
    const open = least ? kept.filter((one) => one >= round) : kept;
    return open.length ? open.reduce((best, one) => (Math.abs(one - round) < Math.abs(best - round) ? one : best)) : round;
  }

  link() {
    return "#";
  }
};

amity.save = function (name, text, type) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = amity.el("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
};

amity.cellsOf = (table) => [...table.rows].map((row) => [...row.cells].map((cell) => cell.textContent.trim()));

amity.csv = (rows) => rows.map((row) => row.map((cell) => (/[",\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell)).join(",")).join("\r\n") + "\r\n";

amity.latex = function (rows) {
  const signs = { "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "±": "$\\pm$", "−": "$-$", "–": "--", "ε": "$\\varepsilon$" };
  const plain = (cell) => cell.replace(/[\\&%$#_{}~^±−–ε]/g, (sign) => signs[sign] || `\\${sign}`);
  const lines = rows.map((row) => `${row.map(plain).join(" & ")} \\\\`);
  return `\\begin{tabular}{l${"r".repeat(Math.max(0, rows[0].length - 1))}}\n\\hline\n${lines[0]}\n\\hline\n${lines.slice(1).join("\n")}\n\\hline\n\\end{tabular}\n`;
};

// One picture alone on a page of its size, for the browser's own print to PDF.
amity.alone = function (drawn) {
  const { width, height } = drawn.getBoundingClientRect();
  const sheet = amity.el("div", { class: "alone" }, drawn.cloneNode(true));
  const style = amity.el("style", {}, `@page{size:${Math.ceil(width)}px ${Math.ceil(height) + 1}px;margin:0} @media screen{.alone{display:none}} @media print{body{margin:0;padding:0;max-width:none} body>:not(.alone){display:none!important} .alone svg{display:block;width:100%;max-width:none;filter:none}}`);
  document.body.append(sheet, style);
  return () => { sheet.remove(); style.remove(); };
};

amity.print = function (drawn) {
  globalThis.addEventListener("afterprint", amity.alone(drawn), { once: true });
  globalThis.print();
};

// Buttons below each picture and table of the report itself.
amity.saves = function () {
  const own = (selector) => [...document.querySelectorAll(selector)].filter((node) => !node.closest(".live"));
  const named = (node, at) => {
    let before = node.parentElement.closest(".wide") || node;
    while (before && before.tagName !== "H2") before = before.previousElementSibling || before.parentElement;
    return (before?.textContent || `table-${at + 1}`).toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 60);
  };
  const button = (words, act) => amity.el("button", { type: "button", onclick: act }, words);
  own(".picture").forEach((picture, at) => {
    const drawn = picture.querySelector("svg");
    if (!drawn) return;
    const text = () => `<?xml version="1.0" encoding="utf-8"?>\n${new XMLSerializer().serializeToString(drawn)}`;
    picture.after(amity.el("div", { class: "saves" },
      button("save as SVG", () => amity.save(`${named(picture, at)}.svg`, text(), "image/svg+xml")),
      button("print or save as PDF", () => amity.print(drawn))));
  });
  own(".wide > table").forEach((table, at) => {
    const name = named(table, at);
    table.parentElement.after(amity.el("div", { class: "saves" },
      button("save as CSV", () => amity.save(`${name}.csv`, amity.csv(amity.cellsOf(table)), "text/csv")),
      button("save as LaTeX", () => amity.save(`${name}.tex`, amity.latex(amity.cellsOf(table)), "application/x-tex"))));
  });
};

document.addEventListener("DOMContentLoaded", () => {
  amity.saves();
  const home = document.getElementById("replay"), data = document.getElementById("replay-data");
  if (!home || !data) return;
  home.hidden = false;
  amity.page = new amity.Page(home.querySelector("main"), (heard) => new amity.Written(JSON.parse(data.textContent), heard), true);
});
