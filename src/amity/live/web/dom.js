// Small helpers. Text from elsewhere is only ever set as text.
"use strict";
var amity = globalThis.amity || (globalThis.amity = {});

// Okabe and Ito's colours, told apart by people who see few of them.
amity.COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a7a00", "#6a6a6a"];
amity.DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3], [4, 2], [12, 4]];

amity.colour = (at) => (at < 0 ? "#888888" : amity.COLOURS[at % amity.COLOURS.length]);

// What is readable on a colour: black on the light ones.
amity.onColour = (at) => (["#e69f00", "#cc79a7", "#56b4e9", "#009e73"].includes(amity.colour(at)) ? "#000" : "#fff");

amity.el = function (tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  for (const child of children.flat()) {
    if (child === null || child === undefined) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
};

// Replace what a node holds, unless it would look the same: focus and scrolling stay.
amity.fill = function (node, ...children) {
  const next = amity.el("div", {}, ...children);
  if (next.isEqualNode(node.amityLast || null)) return;
  const kept = document.activeElement;
  const key = kept && node.contains(kept) ? kept.getAttribute("data-key") : null;
  const scrolled = [...node.querySelectorAll("[data-scroll]")].map((part) => part.scrollTop);
  node.amityLast = next.cloneNode(true);
  node.replaceChildren(...next.childNodes);
  [...node.querySelectorAll("[data-scroll]")].forEach((part, at) => { part.scrollTop = scrolled[at] || 0; });
  if (key) [...node.querySelectorAll("[data-key]")].find((one) => one.getAttribute("data-key") === key)?.focus();
};

amity.text = (node, words) => { if (node.textContent !== words) node.textContent = words; };

amity.metric = function (value, metric) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  return metric && metric.percent === false ? `${value.toPrecision(4)}${metric.unit ? ` ${metric.unit}` : ""}` : `${(100 * value).toFixed(1)} %`;
};

amity.points = function (gap, metric) {
  if (!gap) return "–";
  const shown = (value) => (metric && metric.percent === false ? value.toPrecision(3) : (100 * value).toFixed(1));
  const half = gap.half === null || gap.half === undefined ? "" : ` ± ${shown(gap.half)}`;
  return `${gap.mean >= 0 ? "+" : "−"}${shown(Math.abs(gap.mean))}${half}`;
};

// By how much a value is better than another.
amity.gain = (mine, other, metric) => (metric?.up === false ? other - mine : mine - other);

amity.bytes = function (count) {
  if (count === null || count === undefined) return "–";
  if (count < 1e3) return `${Math.round(count)} B`;
  if (count < 1e6) return `${(count / 1e3).toFixed(1)} kB`;
  return count < 1e9 ? `${(count / 1e6).toFixed(2)} MB` : `${(count / 1e9).toFixed(2)} GB`;
};

amity.weight = (value) => (!value ? "0" : value >= 0.0995 ? value.toFixed(2) : value.toPrecision(2));

amity.table = function (head, rows, attributes) {
  const cell = (tag, one) => {
    const told = one instanceof Object && !(one instanceof Node) ? one : { is: one };
    return amity.el(tag, { class: told.class, title: told.title, scope: tag === "th" ? "col" : null }, told.is);
  };
  return amity.el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": attributes?.label, "data-scroll": "" },
    amity.el("table", { class: "numbers" },
      amity.el("thead", {}, amity.el("tr", {}, head.map((one) => cell("th", one)))),
      amity.el("tbody", {}, rows.map((row) =>
        amity.el("tr", { class: row.class }, (row.cells || row).map((one) => cell("td", one)))))));
};

amity.ink = function (name) {
  if (!amity.inks.has(name)) amity.inks.set(name, amity.inked(name));
  return amity.inks.get(name);
};
amity.inks = new Map();
globalThis.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => amity.inks.clear());

amity.inked = function (name) {
  const found = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim() || "#888";
  return found.length === 4 ? found.replace(/[0-9a-f]/gi, "$&$&") : found;
};

// A canvas as sharp as the screen. `draw` is called when its size, the colours or what it shows have
// changed. `mark` draws what is pointed at, on a sheet above: the rest stays as it is. Where nothing
// changes, nothing is drawn.
amity.canvas = function (stage, label, height, draw, mark) {
  const node = amity.el("canvas", { class: "draw", role: "img", tabindex: "0", "aria-label": label });
  const above = amity.el("canvas", { class: "draw above", "aria-hidden": "true" });
  const tip = amity.el("div", { class: "tip", hidden: true });
  stage.append(node, above, tip);
  const self = { node, tip, width: 0, height: 0, frames: 0, marked: 0 };
  const [below, top] = [node, above].map((one) => one.getContext("2d"));
  const NOTHING = 0, MARKS = 1, ALL = 2;
  let asked = NOTHING;
  const sheet = (context, make) => {
    const ratio = globalThis.devicePixelRatio || 1;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, self.width, self.height);
    make(context, self.width, self.height);
  };
  const frame = () => {
    const all = asked === ALL;
    asked = NOTHING;
    if (!self.width) return;
    if (all) { self.frames += 1; sheet(below, draw); }
    self.marked += 1;
    sheet(top, mark);
  };
  const ask = (what) => {
    if (asked === NOTHING) requestAnimationFrame(frame);
    asked = Math.max(asked, what);
  };
  self.paint = () => ask(ALL);
  self.touch = () => ask(MARKS);
  self.fit = () => {
    const width = stage.clientWidth, tall = height(width), ratio = globalThis.devicePixelRatio || 1;
    if (width === self.width && tall === self.height) return;
    self.width = width;
    self.height = tall;
    for (const one of [node, above]) {
      one.width = Math.max(1, Math.round(width * ratio));
      one.height = Math.max(1, Math.round(tall * ratio));
      one.style.height = `${tall}px`;
    }
    self.resized?.();
    self.paint();
  };
  // Beside a point, on the side where there is room: nothing has to be measured.
  self.say = (words, x, y) => {
    if (tip.hidden !== !words) tip.hidden = !words;
    if (!words) return;
    amity.text(tip, words);
    const beside = (at, whole) => (at > whole / 2 ? "calc(-100% - 12px)" : "12px");
    tip.style.transform = `translate(${Math.round(x)}px, ${Math.round(y)}px) translate(${beside(x, self.width)}, ${beside(y, self.height)})`;
  };
  new ResizeObserver(self.fit).observe(stage);
  globalThis.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", self.paint);
  return self;
};
