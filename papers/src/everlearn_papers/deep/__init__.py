"""The rivals of deep streaming learning, on one network, one base and one budget. Needs torch.

rival.py          the loop over tasks that all share; by itself it is fine-tuning
importance.py     penalties on moving weights that matter
  ewc.py si.py mas.py rwalk.py
agem.py           gradients that may not undo the past
exemplars.py      herding, and what is kept
  icarl.py end_to_end.py
incremental.py    the protocol: base classes, then a few at a time
base.py           the base network, and the paths of its weights
search.py         learning rate and strength of each rival, by held-out pictures
verification.py   each rival at a setting of its own, beside its published figure
race.py           all rivals, and how each is run
cifar.py          CIFAR-100: the base, the rivals, networks in tens
streams.py        learners on the base network's vectors, class by class
domains.py        other pictures: adaptation, and the four orderings of the turntable
told.py           rivals on the turntable, with and without the task: Table 2
whole.py          the whole network fine-tuned, one step per picture
tables.py         what was found, as tables; report.py writes them down
nights.py         consolidation on CIFAR-100
"""
