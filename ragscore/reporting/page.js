// The page is read against the run that is chosen; the address keeps the choice.
{
  const place = document.querySelector('.rs-against'), title = document.querySelector('.decision h2');
  const { runs, names, against, sentences, sections, cells } =
    JSON.parse(document.getElementById('readings')?.textContent ?? '{"cells":[]}');
  if (place && cells.length) {
    const box = document.createElement('select');
    box.ariaLabel = 'Read the runs against';
    box.append(...cells.map((_, at) => new Option(names[at], at)));
    const address = () => new URLSearchParams(location.hash.includes('=') ? location.hash.slice(1) : '');
    const compared = [...document.querySelectorAll('main > .part')].filter(one => sections.flat().includes(one.id));
    const before = compared[0]?.previousElementSibling;
    const read = () => {
      const at = Math.max(runs.indexOf(address().get('against') ?? against), 0);
      box.value = at in cells ? at : 0;
      place.dataset.run = runs[box.value];  // for paper
      [title.textContent, title.title] = sentences[box.value];
      for (const row of document.querySelectorAll('.rs-standings tr[data-run]')) {
        row.querySelector('.w').outerHTML = cells[box.value][row.dataset.run];
        row.ariaCurrent = row.dataset.run === box.value ? 'true' : null;
      }
      for (const name of document.querySelectorAll('.matrix [data-at]')) {
        name.ariaCurrent = name.dataset.at === box.value ? 'true' : null;
      }
      // comparisons with this run come before the others
      const has = one => sections[box.value].includes(one.id);
      before?.after(...compared.filter(has), ...compared.filter(one => !has(one)));
    };
    box.addEventListener('change', () => {
      const next = address();
      next.set('against', runs[box.value]);
      history.replaceState(history.state, '', `#${next}`);
      read();
    });
    addEventListener('hashchange', read);
    place.replaceChildren(box);
    read();
  }
}
// Sections fold. A link opens the section it leads into, and paper has all of them open.
{
  const reveal = () => {
    const name = location.hash.slice(1);
    // what the explorer keeps in the address is its own; here it is only brought into view
    let target = null;
    if (/(^|&)x\./.test(name)) target = document.getElementById('queries');
    else try { target = document.getElementById(decodeURIComponent(name)); } catch { /* no name of ours */ }
    for (let one = target; one; one = one.parentElement) if (one.localName === 'details') one.open = true;
    target?.scrollIntoView();
  };
  addEventListener('click', event => {
    if (event.target.closest?.('a[href^="#"]')) setTimeout(reveal);
  });
  if (location.hash) reveal();
  let folded = [];
  addEventListener('beforeprint', () => {
    folded = [...document.querySelectorAll('details:not([open])')];
    for (const one of folded) one.open = true;
  });
  addEventListener('afterprint', () => { for (const one of folded) one.open = false; });
}
// A click on a heading sorts its table: first up, then down, then as it was; what is missing comes last.
{
  const unsorted = new WeakMap();
  const key = (row, at) => {
    const cell = row.cells[at], text = cell.textContent.trim();
    if (text === '' || text === '\u2014') return null;
    const found = text.replace(/\u2212/g, '-').match(/[-+]?(?:\d[\d,]*\.?\d*|\.\d+)/);
    return cell.className === 'n' && found ? Number(found[0].replace(/,/g, '')) : text;
  };
  const order = (a, b) => typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b), undefined, {numeric: true});
  for (const head of document.querySelectorAll('.rs-table thead th')) {
    const button = document.createElement('button');
    button.type = 'button';
    button.append(...head.childNodes);
    head.append(button);
    head.ariaSort = 'none';
    button.addEventListener('click', () => {
      const body = head.closest('table').tBodies[0], rows = Array.from(body.rows), at = head.cellIndex;
      if (!unsorted.has(body)) unsorted.set(body, rows);
      const next = {none: 'ascending', ascending: 'descending', descending: 'none'}[head.ariaSort];
      for (const other of head.parentElement.cells) other.ariaSort = 'none';
      head.ariaSort = next;
      const turn = next === 'ascending' ? 1 : -1;
      const sorted = unsorted.get(body).map(row => [key(row, at), row]);
      if (next !== 'none') sorted.sort(([a], [b]) => a === null || b === null ? (a === null) - (b === null) : turn * order(a, b));
      body.append(...sorted.map(([, row]) => row));
    });
  }
}
