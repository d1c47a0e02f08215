// Compares two chosen runs topic by topic, with a paired t-test. The data is in the page.
(() => {
  "use strict";
  const holder = document.querySelector(".pairs");
  const data = JSON.parse(document.getElementById("pairs-data").textContent);
  const SCALE = 1e6;
  const MOST = 10; // topics listed for each side
  const titles = document.getElementById("pairs-titles").content.children; // with formulas
  if (data.runs.length < 2) return;

  const make = (name, content, attributes = {}) => {
    const element = document.createElement(name);
    element.append(...(Array.isArray(content) ? content : [content]));
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const bdi = (text) => make("bdi", text);

  // ln(gamma(x)) by Lanczos' approximation, and the regularized incomplete beta function by its continued fraction.
  const LANCZOS = [676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059, 12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7];
  function lnGamma(x) {
    const z = x - 1;
    const t = z + 7.5;
    const sum = LANCZOS.reduce((total, part, index) => total + part / (z + index + 1), 0.99999999999980993);
    return 0.5 * Math.log(2 * Math.PI) + (z + 0.5) * Math.log(t) - t + Math.log(sum);
  }
  function beta(x, a, b) {
    if (x <= 0) return 0;
    if (x >= 1) return 1;
    if (x > (a + 1) / (a + b + 2)) return 1 - beta(1 - x, b, a);
    const tiny = 1e-300;
    let c = 1;
    let d = 1 / Math.max(tiny, Math.abs(1 - ((a + b) * x) / (a + 1))) * Math.sign(1 - ((a + b) * x) / (a + 1));
    let h = d;
    for (let m = 1; m < 500; m += 1) {
      for (const step of [(m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m)), (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1))]) {
        d = 1 + step * d;
        c = 1 + step / c;
        if (Math.abs(d) < tiny) d = tiny;
        if (Math.abs(c) < tiny) c = tiny;
        d = 1 / d;
        h *= d * c;
      }
      if (Math.abs(d * c - 1) < 1e-15) break;
    }
    return (Math.exp(lnGamma(a + b) - lnGamma(a) - lnGamma(b) + a * Math.log(x) + b * Math.log(1 - x)) * h) / a;
  }
  const pOf = (t, df) => beta(df / (df + t * t), df / 2, 0.5);
  function tOf(p, df) { // the quantile of |t| by halving
    let [low, high] = [0, 1e4];
    for (let step = 0; step < 80; step += 1) {
      const middle = (low + high) / 2;
      if (pOf(middle, df) > p) low = middle; else high = middle;
    }
    return (low + high) / 2;
  }

  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

  // The mean difference over topics and its t-test; topics of a cluster are dependent: the error is the cluster-robust
  // CR2 with its degrees of freedom, of single topics the usual one (harness/scoring/intervals.py).
  function test(a, b) {
    const counted = a.map((value, index) => [value, b[index], data.clusters[index] ?? index]).filter(([x, y]) => x !== null && y !== null);
    const differences = counted.map(([x, y]) => (x - y) / SCALE);
    const m = mean(differences);
    const groups = new Map();
    counted.forEach(([, , cluster], index) => {
      const [size, sum] = groups.get(cluster) ?? [0, 0];
      groups.set(cluster, [size + 1, sum + differences[index] - m]);
    });
    const n = groups.size;
    if (n < 2) return { n, m };
    const total = differences.length;
    let [variance, squares, scaled, scaledSquares] = [0, 0, 0, 0];
    for (const [size, sum] of groups.values()) {
      const outside = 1 - size / total;
      variance += sum ** 2 / outside / total ** 2;
      squares += size ** 2;
      scaled += size ** 2 / outside;
      scaledSquares += (size ** 2 / outside) ** 2;
    }
    const df = total ** 2 / (squares + (scaled ** 2 - scaledSquares) / total ** 2);
    const error = Math.sqrt(variance);
    // Values are rounded to multiples of 1 / SCALE: what varies by less is constant.
    if (error * Math.sqrt(n) <= 1 / SCALE) return Math.abs(m) <= 1 / SCALE ? { n, m: 0, low: 0, high: 0, d: 0, p: 1 } : { n, m };
    const half = tOf(1 - 0.95, df) * error;
    return { n, m, low: m - half, high: m + half, d: m / error / Math.sqrt(n), p: pOf(m / error, df) };
  }

  const corrected = new Map(data.tests.map(([one, other, p, significant]) => [`${one} ${other}`, [p, significant]]));
  // What is said of a test: only pairs of ranked runs in the first measure are in the family of the leaderboard.
  function verdict(one, other, measure, p) {
    const found = measure === 0 ? corrected.get(`${Math.min(one, other)} ${Math.max(one, other)}`) : undefined;
    if (p === undefined || (found && found[0] === null)) return "The paired t-test is undefined: the differences do not vary.";
    const raw = `Paired t-test: p ${shownP(p)}`;
    if (!found) return `${raw}, not corrected: outside the leaderboard\u2019s family of tests.`;
    return `${raw}, ${data.correction} p ${shownP(found[0])}: ${found[1] ? "significant" : "not significant"} at ${data.alpha}.`;
  }

  const signed = (value, digits = 3) => `${value < 0 ? "\u2212" : "+"}${Math.abs(value).toFixed(digits)}`;
  const shownP = (p) => (p < 0.0001 ? "< 0.0001" : `= ${p.toFixed(4)}`);

  const choice = (label, options, chosen) => {
    const select = make("select", options.map((text, index) => new Option(text, index)), { id: `pair-${label}` });
    select.value = chosen;
    const field = make("div", [make("label", label, { for: `pair-${label}` }), select], { class: "field" });
    return [field, select];
  };

  const keys = new Map(data.runs.map(([, key], index) => [key, index]));
  const names = data.runs.map(([name]) => name);
  const read = () => {
    const state = new URLSearchParams(location.hash.slice(1));
    return ["a", "b"].map((side, index) => keys.get(state.get(side)) ?? data.first[index]);
  };
  const [fieldA, selectA] = choice("A", names, 0);
  const [fieldB, selectB] = choice("B", names, 1);
  const [fieldM, selectM] = choice("Measure", data.measures, 0);
  const swap = make("button", "\u21c4", { type: "button", class: "swap", "aria-label": "Exchange the two runs" });
  const row = make("div", [fieldA, swap, fieldB, ...(data.measures.length > 1 ? [fieldM] : [])], { class: "row" });
  const status = make("p", "", { class: "status", role: "status" });
  const drawing = make("div", "");
  const lists = make("div", "", { class: "pair" });
  holder.append(make("div", row, { class: "controls" }), status, drawing, lists);
  holder.hidden = false;

  function bars(differences) {
    const NS = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(NS, "svg");
    const largest = Math.max(1e-9, ...differences.map(([difference]) => Math.abs(difference)));
    const width = 1000 / Math.max(1, differences.length);
    svg.setAttribute("viewBox", "0 0 1000 100");
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", `Difference on each topic, sorted, from ${signed(differences[0]?.[0] ?? 0)} to ${signed(differences.at(-1)?.[0] ?? 0)}`);
    const rect = (x, y, w, h, name, hint) => {
      const element = document.createElementNS(NS, "rect");
      for (const [key, value] of Object.entries({ x, y, width: w, height: h, class: name })) element.setAttribute(key, value);
      if (hint) {
        const title = document.createElementNS(NS, "title");
        title.textContent = hint;
        element.append(title);
      }
      svg.append(element);
    };
    differences.forEach(([difference, index], place) => {
      const height = Math.max(0.4, (Math.abs(difference) / largest) * 48);
      rect(place * width + width * 0.1, difference > 0 ? 50 - height : 50, width * 0.8, height, difference > 0 ? "a" : "b", `${data.topics[index][0]} ${signed(difference)}`);
    });
    rect(0, 49.8, 1000, 0.4, "axis");
    return svg;
  }

  function side(title, differences, a, b) {
    const body = differences.map(([difference, index]) => {
      const [name, address] = data.topics[index];
      const title = titles[index].cloneNode(true);
      title.className = "small";
      const link = make("a", bdi(name), { href: address });
      return make("tr", [
        make("th", [link, title], { scope: "row", class: "t w" }),
        ...[a[index] / SCALE, b[index] / SCALE].map((value) => make("td", value.toFixed(3))),
        make("td", signed(difference)),
      ]);
    });
    const head = make("tr", ["topic", "A", "B", "A \u2212 B"].map((text, index) => make("th", text, { scope: "col", class: index ? "" : "t c0" })));
    const table = make("table", [make("caption", title), make("thead", head), make("tbody", body)]);
    return make("div", table, { class: "region listing", role: "region", tabindex: "0", "aria-label": title });
  }

  function draw() {
    const [one, other, measure] = [selectA, selectB, selectM].map((select) => Number(select.value));
    const label = data.measures[measure];
    const [a, b] = [data.values[measure][one], data.values[measure][other]];
    const differences = a
      .map((value, index) => [(value - b[index]) / SCALE, index, value !== null && b[index] !== null])
      .filter(([, , counted]) => counted)
      .sort(([x, i], [y, j]) => y - x || i - j);
    const found = test(a, b);
    const better = differences.filter(([value]) => value > 1e-9);
    const worse = differences.filter(([value]) => value < -1e-9).reverse();
    const run = (index, letter) => [make("span", letter, { class: `ab ${letter.toLowerCase()}` }), " ", make("a", bdi(names[index]), { href: data.runs[index][2] })];
    status.replaceChildren(...run(one, "A"), ` ${mean(differences.map(([, i]) => a[i] / SCALE)).toFixed(4)} against `, ...run(other, "B"), ` ${mean(differences.map(([, i]) => b[i] / SCALE)).toFixed(4)} in ${label} over ${differences.length} topics: A is higher on ${better.length}, lower on ${worse.length}, equal on ${differences.length - better.length - worse.length}. `);
    if (one === other) status.append("Choose two different runs.");
    else if (found.n < 2) status.append("Too few topics in common for a test.");
    else {
      if (found.p !== undefined) status.append(`Mean difference ${signed(found.m, 4)}, 95% interval ${signed(found.low, 4)} to ${signed(found.high, 4)}, effect size d ${signed(found.d, 2)}. `);
      status.append(verdict(one, other, measure, found.p));
    }
    drawing.replaceChildren(bars(differences));
    lists.replaceChildren(side("Topics where A is better", better.slice(0, MOST), a, b), side("Topics where B is better", worse.slice(0, MOST), a, b));
  }

  const chosen = () => {
    history.replaceState(null, "", `#a=${data.runs[selectA.value][1]}&b=${data.runs[selectB.value][1]}`);
    draw();
  };
  const open = () => {
    [selectA.value, selectB.value] = read();
    draw();
  };
  [selectA, selectB, selectM].forEach((select) => select.addEventListener("change", chosen));
  swap.addEventListener("click", () => {
    [selectA.value, selectB.value] = [selectB.value, selectA.value];
    chosen();
  });
  addEventListener("hashchange", open);
  open();
})();
