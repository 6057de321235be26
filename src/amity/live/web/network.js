// The network of one round: peers as nodes, who took from whom as lines as wide as the weight.
"use strict";
var amity = globalThis.amity || (globalThis.amity = {});

amity.SIGNS = [
  ["solid ring", "harmed: would do better alone", (data, at) => data.harmed[at]],
  ["dotted ring", "answers of neighbours did not come", (data, at) => !data.harmed[at] && data.missing[at]],
  ["hollow", "reaches nobody, or has not done this round", (data, at) => !data.there[at] || data.available[at] === 0],
  ["square", "attacker", (data, at) => data.attacker[at]],
];

// What a tooltip, a list and a reader without eyes are told of a peer.
amity.aboutPeer = function (data, at, metric) {
  const parts = [data.peers[at]];
  if (data.legend?.[data.colours[at]]) parts.push(data.legend[data.colours[at]]);
  parts.push(`${metric?.name || "accuracy"} ${amity.metric(data.value[at], metric)}`);
  if (data.alone[at] !== null) parts.push(`alone ${amity.metric(data.alone[at], metric)}${data.harmed[at] ? ": harmed" : ""}`);
  if (data.attacker[at]) parts.push("attacker");
  if (!data.there[at]) parts.push("has not done this round");
  else if (data.taken[at] !== null) parts.push(`took from ${data.taken[at]}`);
  if (data.missing[at]) parts.push(`${data.missing[at]} answers did not come`);
  return parts.join("\n");
};

amity.MASS = 400; // beyond so many lines they are thin while anything moves, and wide when it rests
amity.CALM = 150; // milliseconds after which it rests

amity.NetworkView = class {
  constructor(stage, choose) {
    this.choose = choose;
    this.nodes = new Map();
    this.list = [];
    this.links = [];
    this.data = null;
    this.zoom = 1;
    this.picked = -1;
    this.chosen = null;
    this.canvas = amity.canvas(stage, "the network", (width) => Math.round(Math.min(560, Math.max(300, width * 0.72))), (...given) => this.draw(...given), (...given) => this.mark(...given));
    this.canvas.resized = () => this.place();
    const node = this.canvas.node;
    node.addEventListener("pointermove", (event) => this.hover(event));
    node.addEventListener("pointerleave", () => { this.picked = -1; this.canvas.say(""); this.canvas.touch(); });
    node.addEventListener("click", (event) => { this.hover(event); if (this.picked >= 0) this.choose(this.data.peers[this.picked]); });
    node.addEventListener("keydown", (event) => this.key(event));
    this.force = d3.forceSimulation([]).stop()
      .force("charge", d3.forceManyBody().strength(-260).distanceMax(420))
      .force("x", d3.forceX(0).strength(0.06)).force("y", d3.forceY(0).strength(0.08))
      .force("collide", d3.forceCollide(20))
      .force("link", d3.forceLink([]).distance(90).strength((link) => Math.min(0.9, 0.08 + 1.5 * link.weight)))
      .alphaDecay(0.05).on("tick", () => this.move());
  }

  show(data, metric) {
    const known = this.data && this.data.peers.join("\n") === data.peers.join("\n");
    this.data = data;
    this.metric = metric;
    data.peers.forEach((name, at) => {
      const node = this.nodes.get(name) || { name };
      node.at = at;
      this.nodes.set(name, node);
    });
    this.list = data.peers.map((name) => this.nodes.get(name));
    this.links = data.edges.map(([taker, giver, weight]) => ({ source: this.list[giver], target: this.list[taker], weight }));
    this.start(known);
    const busiest = [...data.edges].sort((a, b) => b[2] - a[2])[0];
    const most = busiest ? `; the largest weight is ${amity.weight(busiest[2])}, which ${data.peers[busiest[0]]} gave ${data.peers[busiest[1]]}` : "; nobody took from anybody";
    this.move();
    this.canvas.node.setAttribute("aria-label", `Network of ${data.peers.length} peers in round ${data.round + 1}: ${data.edges.length} edges${most}. Arrow keys go from peer to peer, Enter opens one.`);
  }

  // Something has changed its place: drawn at once, and well when nothing follows.
  move() {
    this.still = this.links.length <= amity.MASS;
    clearTimeout(this.calm);
    if (!this.still) this.calm = setTimeout(() => { this.still = true; this.canvas.paint(); }, amity.CALM);
    this.canvas.paint();
  }

  start(known) {
    if (this.data.places) {
      this.force.stop();
      this.place();
      return;
    }
    if (!known) this.list.forEach((node, at) => {
      if (node.x !== undefined) return;
      const turn = (2 * Math.PI * at) / this.list.length;
      node.x = 120 * Math.cos(turn);
      node.y = 90 * Math.sin(turn);
    });
    this.force.nodes(this.list);
    this.force.force("link").links(this.links);
    this.force.alpha(known ? Math.max(this.force.alpha(), 0.15) : 0.9).restart();
  }

  place() {
    if (!this.data?.places) return;
    const reach = Math.min(this.canvas.width / 2, this.canvas.height / 2) - 8;
    const wide = Math.min(1.7, this.canvas.width / this.canvas.height);
    this.data.places.forEach(([x, y], at) => Object.assign(this.list[at], { x: x * reach * wide, y: y * reach }));
    this.canvas.paint();
  }

  radius() {
    const count = this.list.length;
    return (count <= 20 ? 13 : count <= 60 ? 9 : count <= 300 ? 6 : 3) * Math.sqrt(this.zoom);
  }

  // From the plane of the nodes to the canvas: everything fits, and zoom is around the middle.
  frame(width, height) {
    if (this.data.places) return { scale: this.zoom, x: width / 2, y: height / 2 };
    let left = Infinity, right = -Infinity, top = Infinity, low = -Infinity;
    for (const node of this.list) {
      left = Math.min(left, node.x); right = Math.max(right, node.x);
      top = Math.min(top, node.y); low = Math.max(low, node.y);
    }
    const fit = Math.min((width - 90) / Math.max(1, right - left), (height - 80) / Math.max(1, low - top), 2);
    const scale = fit * this.zoom;
    return { scale, x: width / 2 - (scale * (left + right)) / 2, y: height / 2 - (scale * (top + low)) / 2 };
  }

  draw(context, width, height) {
    if (!this.data || !this.list.length) return;
    this.view = this.frame(width, height);
    if (this.links.length <= amity.MASS) this.edges(context, this.links, "ink", 0.45);
    else if (this.still) this.mass(context);
    else this.sketch(context);
    this.list.forEach((node) => this.node(context, node));
  }

  // Who is pointed at: whom it took from, who took from it, and these peers. All others are paler.
  mark(context) {
    const focus = this.picked >= 0 ? this.list[this.picked] : this.nodes.get(this.chosen);
    const seen = Boolean(focus && this.view && this.list[focus.at] === focus);
    this.canvas.node.classList.toggle("pale", seen);
    if (!seen) return;
    const taken = this.links.filter((link) => link.target === focus), given = this.links.filter((link) => link.source === focus);
    this.edges(context, given, "ink", 0.35);
    this.edges(context, taken, "accent", 0.95);
    const near = new Set([...given.map((link) => link.target), ...taken.map((link) => link.source), focus]);
    for (const node of near) this.node(context, node, node === focus);
  }

  spot(node) {
    return [this.view.x + this.view.scale * node.x, this.view.y + this.view.scale * node.y];
  }

  // Thousands of lines. A stroke takes a few that are equally wide: one of very many is slow to fill.
  mass(context) {
    context.globalAlpha = Math.max(0.04, Math.min(0.16, 160 / this.links.length));
    for (const [halves, links] of this.alike((weight) => Math.round(18 * weight))) {
      context.lineWidth = Math.max(0.6, halves / 2);
      for (let at = 0; at < links.length; at += 8) this.stroke(context, links.slice(at, at + 8));
    }
    context.globalAlpha = 1;
  }

  // The same in a tenth of the time: thin lines, the darker the more weight.
  sketch(context) {
    context.lineWidth = 1;
    for (const [tenths, links] of this.alike((weight) => Math.ceil(10 * weight))) {
      context.globalAlpha = Math.min(0.6, 0.06 + 0.08 * tenths);
      for (const link of links) this.stroke(context, [link]);
    }
    context.globalAlpha = 1;
  }

  alike(key) {
    const found = new Map();
    for (const link of this.links) {
      const at = key(link.weight);
      if (!found.has(at)) found.set(at, []);
      found.get(at).push(link);
    }
    return found;
  }

  stroke(context, links) {
    context.strokeStyle = amity.ink("ink");
    context.beginPath();
    for (const link of links) {
      context.moveTo(...this.spot(link.source));
      context.lineTo(...this.spot(link.target));
    }
    context.stroke();
  }

  edges(context, links, ink, strength) {
    context.lineCap = "round";
    context.globalAlpha = strength;
    context.strokeStyle = amity.ink(ink);
    for (const link of links) {
      const [x1, y1] = this.spot(link.source), [x2, y2] = this.spot(link.target);
      context.lineWidth = Math.max(0.6, 9 * link.weight);
      context.beginPath();
      context.moveTo(x1, y1);
      const x = (x1 + x2) / 2 + (y2 - y1) * 0.12, y = (y1 + y2) / 2 - (x2 - x1) * 0.12;
      context.quadraticCurveTo(x, y, x2, y2);
      context.stroke();
      this.arrow(context, x2, y2, Math.atan2(y2 - y, x2 - x), context.lineWidth);
    }
    context.globalAlpha = 1;
  }

  // Where a line comes to who took.
  arrow(context, x, y, turn, width) {
    const from = this.radius() + 1, long = 6 + 1.4 * width, half = 3 + 0.8 * width;
    const at = (back, aside) => [x - back * Math.cos(turn) - aside * Math.sin(turn), y - back * Math.sin(turn) + aside * Math.cos(turn)];
    context.fillStyle = context.strokeStyle;
    context.beginPath();
    context.moveTo(...at(from, 0));
    context.lineTo(...at(from + long, half));
    context.lineTo(...at(from + long, -half));
    context.fill();
  }

  node(context, node, focused = false) {
    const data = this.data, at = node.at, colour = amity.colour(data.colours[at]);
    const [x, y] = this.spot(node), radius = this.radius() + (focused ? 1 : 0);
    context.beginPath();
    if (data.attacker[at]) context.rect(x - radius, y - radius, 2 * radius, 2 * radius);
    else context.arc(x, y, radius, 0, 2 * Math.PI);
    context.lineWidth = 1.5;
    context.strokeStyle = colour;
    context.fillStyle = this.filled(at) ? colour : amity.ink("card");
    context.fill();
    context.stroke();
    const far = radius < 6 ? 2 : 4;
    if (data.harmed[at] || data.missing[at]) this.ring(context, x, y, radius + far, "bad", far / 2, data.harmed[at] ? [] : [2, 3]);
    if (focused) this.ring(context, x, y, radius + 8, "focus", 3, []);
    if (radius >= 8) this.named(context, node, x, y, radius);
  }

  filled(at) {
    return this.data.there[at] && this.data.available[at] !== 0;
  }

  ring(context, x, y, radius, ink, width, dash) {
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    context.setLineDash(dash);
    context.strokeStyle = amity.ink(ink);
    context.lineWidth = width;
    context.stroke();
    context.setLineDash([]);
  }

  named(context, node, x, y, radius) {
    const data = this.data, colour = data.colours[node.at];
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillStyle = this.filled(node.at) ? amity.onColour(colour) : amity.ink("ink");
    context.font = `600 ${Math.round(radius * 0.95)}px system-ui, sans-serif`;
    context.fillText(colour >= 0 ? String(colour + 1) : "", x, y + 0.5);
    context.fillStyle = amity.ink("soft");
    context.font = "11px system-ui, sans-serif";
    const name = node.name.length > 16 ? `${node.name.slice(0, 15)}…` : node.name;
    if (this.list.length <= 40) context.fillText(name, x, y + radius + 12);
  }

  nearest(x, y) {
    let best = -1, least = Math.max(16, this.radius() + 6) ** 2;
    this.list.forEach((node, at) => {
      const far = (this.view.x + this.view.scale * node.x - x) ** 2 + (this.view.y + this.view.scale * node.y - y) ** 2;
      if (far < least) { least = far; best = at; }
    });
    return best;
  }

  hover(event) {
    if (!this.data || !this.view) return;
    const box = this.canvas.node.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    const before = this.picked;
    this.picked = this.nearest(x, y);
    this.canvas.say(this.picked >= 0 ? amity.aboutPeer(this.data, this.picked, this.metric) : "", x, y);
    if (before !== this.picked) this.canvas.touch();
  }

  key(event) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!this.data || (!step && event.key !== "Enter")) return;
    event.preventDefault();
    if (event.key === "Enter" && this.picked >= 0) { this.choose(this.data.peers[this.picked]); return; }
    const count = this.list.length;
    this.picked = (Math.max(this.picked, step > 0 ? -1 : 0) + (step || 0) + count) % count;
    const node = this.list[this.picked];
    if (this.view) this.canvas.say(amity.aboutPeer(this.data, this.picked, this.metric), ...this.spot(node));
    this.canvas.touch();
  }
};
