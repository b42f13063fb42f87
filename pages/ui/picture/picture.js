// Buttons that save the figure above them as a picture, as it is on the screen.
// The browser makes the picture by itself: nothing is sent anywhere.

const SVG = "http://www.w3.org/2000/svg";
const PNG_SCALE = 3;

export default function ({ data, parentElement }) {
  const bar = parentElement.querySelector(".ka-pictures") ?? document.createElement("div");
  bar.className = "ka-pictures";
  bar.replaceChildren(makeArrow(), ...["svg", "png"].map((form) => makeButton(form, data)));
  parentElement.append(bar);
}

function makeArrow() {
  const arrow = document.createElementNS(SVG, "svg");
  arrow.setAttribute("viewBox", "0 0 24 24");
  arrow.setAttribute("aria-hidden", "true");
  const path = arrow.appendChild(document.createElementNS(SVG, "path"));
  path.setAttribute("d", "M12 3v12m-5-5 5 5 5-5M4 20h16");
  return arrow;
}

function makeButton(form, data) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = form.toUpperCase();
  button.title = data.titles[form];
  button.setAttribute("aria-label", data.titles[form]);
  button.addEventListener("click", () => save(form, data));
  return button;
}

async function save(form, data) {
  const plot = document.querySelector(`.st-key-${data.figure} .js-plotly-plot`);
  if (!plot) return;
  const drawing = copyDrawing(plot);
  const text = new XMLSerializer().serializeToString(drawing);
  const blob = new Blob([text], { type: "image/svg+xml" });
  offer(form === "svg" ? blob : await paint(blob, drawing), `${data.name}.${form}`);
}

// Plotly draws in layers, each an SVG of the same size; one SVG holds them all.
function copyDrawing(plot) {
  const layers = [...plot.querySelectorAll("svg.main-svg")];
  const { width, height } = layers[0].getBoundingClientRect();
  const drawing = document.createElementNS(SVG, "svg");
  const look = { xmlns: SVG, width, height, viewBox: `0 0 ${width} ${height}` };
  for (const [name, value] of Object.entries(look)) drawing.setAttribute(name, value);
  const ground = drawing.appendChild(document.createElementNS(SVG, "rect"));
  const app = getComputedStyle(document.querySelector(".stApp"));
  for (const [name, value] of Object.entries({ width, height, fill: app.backgroundColor }))
    ground.setAttribute(name, value);
  for (const layer of layers)
    for (const child of layer.children)
      if (!child.classList.contains("hoverlayer")) drawing.append(child.cloneNode(true));
  for (const dragger of drawing.querySelectorAll(".draglayer, .legendtoggle")) dragger.remove();
  return drawing;
}

async function paint(blob, drawing) {
  const address = URL.createObjectURL(blob);
  const image = new Image();
  image.src = address;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = PNG_SCALE * drawing.getAttribute("width");
  canvas.height = PNG_SCALE * drawing.getAttribute("height");
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(address);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

function offer(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
