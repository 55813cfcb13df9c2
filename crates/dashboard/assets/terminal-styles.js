// xterm.js adds style sheets and style attributes as text, which the policy of this page lets nobody do, because
// markup that got in could do it too. While a terminal is open its elements are made so that the same
// is done by script, with sheets and properties, which no markup can reach.

/** Terminals that are open. */
let open = 0;

/** A stand-in for a style element: what is its text elsewhere is a sheet of the document here. */
function styleElement() {
  const element = make("span");
  element.hidden = true;
  const sheet = new CSSStyleSheet();
  Object.defineProperty(element, "textContent", {
    get: () => "",
    set(text) {
      sheet.replaceSync(text);
      if (!document.adoptedStyleSheets.includes(sheet)) document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
    },
  });
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((other) => other !== sheet);
    Element.prototype.remove.call(element);
  };
  return element;
}

/** @this {HTMLElement} Sets a style by its property. */
function setAttribute(name, value) {
  if (name === "style") this.style.cssText = value;
  else Element.prototype.setAttribute.call(this, name, value);
}

function make(name, options) {
  return Document.prototype.createElement.call(document, name, options);
}

function createElement(name, options) {
  if (name === "style") return styleElement();
  const element = make(name, options);
  if (name === "span") element.setAttribute = setAttribute;
  return element;
}

/** Begins to make elements like that. Returns what ends it. */
export function styleByScript() {
  open += 1;
  Object.defineProperty(document, "createElement", { configurable: true, value: createElement });
  return () => {
    open -= 1;
    // What is left is the browser's own again.
    if (open === 0) Reflect.deleteProperty(document, "createElement");
  };
}
