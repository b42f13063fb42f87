"use strict";
// The folder's page: a switch of languages, figures, and tables that sort by a click on a heading.
const figures = JSON.parse(document.getElementById("figures").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");
const ON_DARK = { "#B5482A": "#E0754F", "#5F6670": "#9BA3AE" };

// Plotly does not wrap titles. Japanese is wrapped at any letter, and its letters are wide.
function wrap(text, length) {
  const isWide = /[\u3040-\u9fff]/.test(text);
  const pattern = isWide ? `.{1,${Math.max(8, Math.floor(length))}}`
    : `.{1,${Math.max(16, Math.floor(1.8 * length))}}(?:\\s|$)`;
  return text.match(new RegExp(pattern, "gu"))?.join("<br>") ?? text;
}

function drawFigures(main) {
  for (const box of main.querySelectorAll(".plot")) {
    let text = JSON.stringify(figures[main.lang][box.dataset.figure]);
    for (const light of Object.keys(ON_DARK)) {
      if (dark.matches) text = text.replaceAll(light, ON_DARK[light]);
    }
    const figure = JSON.parse(text);
    const ink = getComputedStyle(document.body).color;
    const line = "rgba(125, 133, 144, 0.35)";
    const axis = { gridcolor: line, zerolinecolor: line, automargin: true };
    const title = wrap(figure.layout.xaxis.title.text, box.clientWidth / 22);
    const ground = dark.matches ? "#2A2D33" : "#FFFFFF";
    const rows = new Set(figure.data.flatMap((one) => one.type === "box" ? [one.name] : one.y));
    const layout = {
      ...figure.layout, template: {}, height: 110 + 56 * rows.size, dragmode: false,
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: ink, family: getComputedStyle(document.body).fontFamily, size: 13 },
      margin: { l: 10, r: 16, t: figure.layout.showlegend ? 64 : 30, b: 10 },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
      hoverlabel: { bgcolor: ground, bordercolor: line, font: { color: ink } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: ink, activecolor: ink },
      xaxis: { ...figure.layout.xaxis, ...axis, title: { text: title, font: { size: 13 } } },
      yaxis: { ...figure.layout.yaxis, ...axis, autorange: "reversed" },
    };
    const options = { displaylogo: false, responsive: true, modeBarButtons: [["toImage"]],
      toImageButtonOptions: { format: "svg" } };
    Plotly.react(box, figure.data, layout, options);
  }
}

function showLanguage(code) {
  for (const main of document.querySelectorAll("main")) {
    main.hidden = main.lang !== code;
    if (main.hidden) continue;
    document.documentElement.lang = code;
    document.title = main.dataset.title;
    drawFigures(main);
  }
  for (const button of document.querySelectorAll("[data-language]")) {
    button.setAttribute("aria-pressed", String(button.dataset.language === code));
  }
}

const DIGITS = Object.fromEntries(
  [..."\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"].map((c, i) => [c, String(i)]),
);
DIGITS["\u207b"] = "-";

function readCell(cell) {
  const text = (cell?.firstChild?.textContent ?? "").trim();
  const plain = text.replaceAll(",", "").replaceAll("\u2212", "-");
  const power = plain.match(/^(-?[\d.]+) \u00d7 10([\u2070\u00b9\u00b2\u00b3\u2074-\u2079\u207b]+)/);
  if (power) return Number(`${power[1]}e${[...power[2]].map((c) => DIGITS[c]).join("")}`);
  const number = parseFloat(plain);
  return Number.isNaN(number) ? text : number;
}

function compareCells(one, other) {
  if (typeof one === "number" && typeof other === "number") return one - other;
  return String(one).localeCompare(String(other), undefined, { numeric: true });
}

function sortTable(heading) {
  const body = heading.closest("table").tBodies[0];
  const place = heading.cellIndex;
  const sign = heading.ariaSort === "ascending" ? -1 : 1;
  for (const other of heading.parentElement.cells) other.removeAttribute("aria-sort");
  heading.ariaSort = sign > 0 ? "ascending" : "descending";
  const rows = [...body.rows].map((row) => [readCell(row.cells[place]), row]);
  const isEmpty = (value) => value === "" || value === "\u2014";
  rows.sort(([one], [other]) =>
    isEmpty(one) - isEmpty(other) || sign * compareCells(one, other));
  body.append(...rows.map(([, row]) => row));
}

for (const heading of document.querySelectorAll(".wide thead th")) {
  heading.tabIndex = 0;
  heading.classList.add("sorts");
  heading.addEventListener("click", () => sortTable(heading));
  heading.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    sortTable(heading);
  });
}
for (const button of document.querySelectorAll("[data-language]")) {
  button.addEventListener("click", () => showLanguage(button.dataset.language));
}
dark.addEventListener("change", () => showLanguage(document.documentElement.lang));
showLanguage(document.documentElement.lang);
