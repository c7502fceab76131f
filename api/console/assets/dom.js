/* Elements out of data. Text goes in as text: nothing here, or anywhere in the console, makes markup out of a string. */

/* el('p', { class: 'x', on: { click } }, 'text', node, [more], null) */
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === 'on') {
      for (const [event, call] of Object.entries(value)) {
        made.addEventListener(event, call);
      }
    } else if (value === true) {
      made.setAttribute(name, '');
    } else if (value !== false && value !== null && value !== undefined) {
      made.setAttribute(name, value);
    }
  }
  append(made, children);
  return made;
}

function append(parent, children) {
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) {
      parent.append(child instanceof Node ? child : String(child));
    }
  }
}

export function fill(parent, ...children) {
  parent.replaceChildren();
  append(parent, children);
}

/* Read out by screen readers, shown to nobody. */
export function announce(text) {
  const status = document.getElementById('status');
  status.textContent = '';
  /* The same words twice are news, too: a change after a change is what is read. */
  requestAnimationFrame(() => { status.textContent = text; });
}

/* ---- words ---- */

/* "2026-11-21T17:28:58.524Z" as "2026-11-21 17:28:58 UTC", with what follows the second kept in the tooltip. */
export function time(text) {
  const parts = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?Z$/.exec(text ?? '');
  return parts ? el('time', { datetime: text, title: text }, `${parts[1]} ${parts[2]} UTC`) : '–';
}

export function size(bytes) {
  const units = ['bytes', 'KiB', 'MiB', 'GiB'];
  let unit = 0, value = bytes;
  for (; value >= 1024 && unit + 1 < units.length; unit++) {
    value /= 1024;
  }
  return unit === 0 ? `${bytes} bytes` : `${value.toFixed(1)} ${units[unit]}`;
}

export function span(seconds) {
  const units = [[86400, 'day'], [3600, 'hour'], [60, 'minute'], [1, 'second']];
  const [length, name] = units.find(([least]) => seconds >= least && seconds % least === 0) ?? units[3];
  const count = seconds / length;
  return `${count} ${name}${count === 1 ? '' : 's'}`;
}

/* "audit_reconciliation" as "Audit reconciliation". */
export function words(name) {
  const text = String(name).replaceAll('_', ' ');
  return text.charAt(0).toUpperCase() + text.slice(1);
}

export function hexOf(base64) {
  return Array.from(atob(base64), (c) => c.charCodeAt(0).toString(16).padStart(2, '0')).join('');
}

export function mono(text) {
  return el('code', { class: 'mono' }, text);
}

/* A state: always a word, the colour only beside it. kind: good, bad, warn or plain. */
export function badge(kind, text) {
  return el('span', { class: `badge ${kind}` }, text);
}

/* ---- shapes ---- */

export function section(title, ...children) {
  return el('section', { class: 'card' }, el('h2', {}, title), children);
}

/* pairs: [[name, value], ...]; null ones are left out. */
export function facts(pairs) {
  return el('dl', { class: 'facts' }, pairs.filter((pair) => pair !== null)
    .map(([name, value]) => el('div', {}, el('dt', {}, name), el('dd', {}, value))));
}

/* columns: names; rows: arrays of cells. On a narrow screen a row becomes a block and each cell shows its column's name,
 * which is why the roles are said: a table that is laid out as blocks is none to a browser. */
export function table(caption, columns, rows) {
  const cell = (value, i) => (i === 0
    ? el('th', { scope: 'row', role: 'rowheader', 'data-column': columns[i] }, el('div', {}, value))
    : el('td', { role: 'cell', 'data-column': columns[i] }, el('div', {}, value)));
  return el('table', { role: 'table' },
    el('caption', {}, caption),
    el('thead', { role: 'rowgroup' }, el('tr', { role: 'row' }, columns.map((name) => el('th', { scope: 'col', role: 'columnheader' }, name)))),
    el('tbody', { role: 'rowgroup' }, rows.map((cells) => el('tr', { role: 'row' }, cells.map(cell)))));
}

export function more(summary, ...children) {
  return el('details', {}, el('summary', {}, summary), children);
}

let ids = 0;
/* A labelled field. control: an element; hint: what stands below it. */
export function field(label, control, hint) {
  control.id = `f${++ids}`;
  const below = hint ? el('p', { class: 'hint', id: `${control.id}h` }, hint) : null;
  if (below) {
    control.setAttribute('aria-describedby', below.id);
  }
  return el('div', { class: 'field' }, el('label', { for: control.id }, label), control, below);
}

export function choice(name, options, chosen) {
  return el('select', { name }, options.map(([value, text]) => el('option', { value, selected: value === chosen }, text)));
}

export function button(text, click, kind = '') {
  return el('button', { type: 'button', class: kind, on: { click } }, text);
}

/* A form that is read as { name: value }. */
export function form(submit, ...children) {
  return el('form', { novalidate: false, on: { submit: (event) => {
    event.preventDefault();
    const values = {};
    for (const [name, value] of new FormData(event.target)) {
      values[name] = value.trim();
    }
    submit(values, event.target);
  } } }, children);
}
