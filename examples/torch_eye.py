# %% [markdown]
# # A torch network as the embedder
# A small network is trained on three digits; a streaming learner behind its features learns the
# other digits as they come, without changing the network.

# %%
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from everlearn import StreamingLDA

torch.manual_seed(0)
X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X / 16.0, y, random_state=0, stratify=y)
images, labels = torch.tensor(X, dtype=torch.float32), torch.tensor(y)

# %%
body = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64))
network = torch.nn.Sequential(body, torch.nn.ReLU(), torch.nn.Linear(64, 3))
base = labels < 3
optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
for _ in range(60):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(network(images[base]), labels[base]).backward()
    optimizer.step()

# %% [markdown]
# Now the stream: tensors as examples and as labels, with new classes among them.

# %%
learner = StreamingLDA()
with torch.inference_mode():
    for image, label in zip(images, labels, strict=True):
        learner.learn_one(body(image), label)
    features = body(torch.tensor(X_test, dtype=torch.float32))
    print(
        f"ten classes, seven of which the network never saw: {learner.score(features, y_test):.1%}"
    )
