// Sections fold. A link opens the section it leads into, and paper has all of them open.
{
  const reveal = () => {
    const name = location.hash.slice(1);
    // what the explorer keeps in the address is its own; here it is only brought into view
    if (name.startsWith('x.')) return document.getElementById('queries')?.scrollIntoView();
    let target = null;
    try { target = document.getElementById(decodeURIComponent(name)); } catch { /* no name of ours */ }
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
