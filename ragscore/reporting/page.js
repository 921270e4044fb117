// Paper has all sections open. (A link to a query is followed by the explorer.)
{
  let folded = [];
  addEventListener('beforeprint', () => {
    folded = [...document.querySelectorAll('details.part:not([open])')];
    for (const one of folded) one.open = true;
  });
  addEventListener('afterprint', () => { for (const one of folded) one.open = false; });
}
