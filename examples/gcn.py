"""A graph convolutional network assigns 600 nodes to 4 groups from 40 labels: 90 % of the other nodes in a second.

With PyTorch: write ``import torch`` in place of the import of retrograd. Source: Kipf and Welling 2016,
arXiv:1609.02907.
"""

import math

import numpy as np

import retrograd as torch
from data import communities, run

nn, F = torch.nn, torch.nn.functional
Parameter = torch.nn.parameter.Parameter


class GraphConvolution(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.weight = Parameter(torch.FloatTensor(in_features, out_features))
        self.bias = Parameter(torch.FloatTensor(out_features))
        self.reset_parameters()

    def reset_parameters(self):
        stdv = 1.0 / math.sqrt(self.weight.size(1))
        self.weight.data.uniform_(-stdv, stdv)
        self.bias.data.uniform_(-stdv, stdv)

    def forward(self, input, adj):
        return torch.spmm(adj, torch.mm(input, self.weight)) + self.bias


class GCN(nn.Module):
    def __init__(self, nfeat, nhid, nclass, dropout):
        super().__init__()
        self.gc1 = GraphConvolution(nfeat, nhid)
        self.gc2 = GraphConvolution(nhid, nclass)
        self.dropout = dropout

    def forward(self, x, adj):
        x = F.relu(self.gc1(x, adj))
        x = F.dropout(x, self.dropout, training=self.training)
        return F.log_softmax(self.gc2(x, adj), dim=1)


def normalized(edges, count):
    """D^-1 (A + I) as a sparse matrix."""
    edges = np.concatenate((edges, np.stack((np.arange(count),) * 2)), 1)
    degree = np.bincount(edges[0], minlength=count)
    values = torch.from_numpy((1 / degree[edges[0]]).astype(np.float32))
    return torch.sparse_coo_tensor(torch.from_numpy(edges), values, (count, count))


def main(epochs=200, threads=2, compiled=False):
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    edges, words, groups = communities()
    adj, features, labels = normalized(edges, len(groups)), torch.from_numpy(words), torch.from_numpy(groups)
    train, test = torch.arange(40), torch.arange(40, len(groups))
    model = GCN(nfeat=features.shape[1], nhid=16, nclass=4, dropout=0.5)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    if compiled:
        model = torch.compile(model)
    for epoch in range(epochs):
        model.train()
        optimizer.zero_grad()
        output = model(features, adj)
        loss = F.nll_loss(output[train], labels[train])
        loss.backward()
        optimizer.step()
        if epoch % 50 == 0:
            print(f"epoch {epoch:3d}  loss {loss.item():.4f}")
    model.eval()
    with torch.no_grad():
        guessed = model(features, adj)[test].max(1)[1].type_as(labels)
    return "accuracy", guessed.eq(labels[test]).double().sum().item() / len(test)


if __name__ == "__main__":
    run(main)
