/* Wide tables scroll sideways; whoever uses the keyboard can scroll them, too. */
function reachable() {
  document.querySelectorAll(".md-typeset__scrollwrap").forEach((wrap) => (wrap.tabIndex = 0));
}
new MutationObserver(reachable).observe(document, { childList: true, subtree: true });
reachable();
