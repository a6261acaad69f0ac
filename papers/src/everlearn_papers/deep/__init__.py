"""Class-incremental methods compared with deep streaming learning. Needs torch.

All methods ("rivals") start from the same base network and have the same memory budget.

rival.py          the training loop over tasks; without overrides it is fine-tuning
importance.py     quadratic penalties weighted by parameter importance
  ewc.py si.py mas.py rwalk.py
agem.py           gradient projection against interference with past tasks
exemplars.py      herding and the exemplar store
  icarl.py end_to_end.py
incremental.py    the protocol: base classes, then a few classes per task
base.py           training of the base network
search.py         search of learning rate and regularization weight on held-out pictures
verification.py   each rival in its published setting, compared with the published figure
race.py           the list of rivals and their settings, and how each is run
cifar.py          CIFAR-100: base network, rivals, ten classes at a time from scratch
streams.py        learners on the base network's features, class by class
domains.py        domain shift: adaptation, and the four orderings of the turntable
told.py           rivals on the turntable, with and without the task given: Table 2
costs.py          time and memory of the five tasks, each method alone on the device
whole.py          the whole network fine-tuned, one step per picture
tables.py         tables of the results; report.py writes the report
turntable_tables.py  tables of the results on the turntable
consolidation.py  consolidation on CIFAR-100
"""
