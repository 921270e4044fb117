// A link to a query opens the section of the explorer, and paper has all sections open.
{
  const reveal = () => {
    if (!/(^#|&)x\./.test(location.hash)) return;
    const section = document.querySelector('.rs-explorer')?.closest('details');
    if (!section) return;
    section.open = true;
    section.scrollIntoView();
  };
  addEventListener('click', event => {
    if (event.target.closest?.('a[href^="#x."]')) setTimeout(reveal);
  });
  reveal();
  let folded = [];
  addEventListener('beforeprint', () => {
    folded = [...document.querySelectorAll('details.part:not([open])')];
    for (const one of folded) one.open = true;
  });
  addEventListener('afterprint', () => { for (const one of folded) one.open = false; });
}
