// Elements of the page.

export const $ = (id) => document.getElementById(id);

// A new element. Texts are set as texts, and never parsed. Names with a dash are attributes.
export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key.includes("-")) made.setAttribute(key, value);
    else made[key] = value;
  }
  made.append(...children);
  return made;
}

// The same in a drawing, where all are attributes.
export function drawn(name, properties = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(properties)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export function options(select, texts) {
  select.replaceChildren(...texts.map((text) => element("option", { value: text, textContent: text })));
}

// Makes the children of an element those of another one. Parts that are equal stay: they need no
// layout.
export function renew(element, other) {
  const [old, made] = [[...element.childNodes], [...other.childNodes]];
  made.forEach((one, k) => {
    const there = old[k];
    if (!there) element.append(one);
    else if (!there.isEqualNode(one)) {
      if (there.cloneNode().isEqualNode(one.cloneNode()) && one.firstChild) renew(there, one);
      else there.replaceWith(one);
    }
  });
  old.slice(made.length).forEach((one) => one.remove());
}
