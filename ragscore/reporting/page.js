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
