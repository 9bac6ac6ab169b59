"""The lab: an interactive page on which parameters are dragged and the regret follows.

Needs the extra `lab`. In the order of imports: `settings` (what a visitor has chosen), `sources` (the problem
that this makes), `script` (copy as Python), `computation` (off the event loop, the newest request first),
`outcomes` (what is computed for a view), `views` and `tables` (what is drawn), `controls` and `page` (the
widgets), `server`.
"""

from typing import TYPE_CHECKING

from dlbjax.common.hints import optional
from dlbjax.model.problem import Problem, check_problem

if TYPE_CHECKING:
    from panel.viewable import Viewable


def lab(problem: Problem | None = None) -> "Viewable":
    """The interactive page, in a notebook; `dlbjax lab` serves the same page to a browser.

    Needs the extra `lab`: pip install "dlbjax[lab]".

    Args:
      problem: the problem to start with; the paper's synthetic one by default.

    Returns:
      A Panel object, which a notebook displays.
    """
    if problem is not None:
        check_problem(problem)
    optional("panel", "lab")
    from dlbjax.lab.page import in_notebook

    return in_notebook(problem)
