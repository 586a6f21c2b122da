#!/usr/bin/python3
"""The model that lull-train trains, in PyTorch, and the same training: the
reference for losses, gradient norms and gradients. Reads what lull-train
writes with --dump-init, --dump-batches and --dump-grads."""
import json
import math
import struct

import numpy
import torch
import torch.nn.functional as F


def read_safetensors(path):
    """Name to array of a safetensors file of F32 and U8 tensors."""
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    types = {"F32": numpy.float32, "U8": numpy.uint8}
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        array = numpy.frombuffer(data[begin:end], types[entry["dtype"]])
        tensors[name] = array.reshape(entry["shape"]).copy()
    return tensors


def read_batches(path):
    """One [global batch, seq + 1] array of bytes for each step, in order."""
    tensors = read_safetensors(path)
    return [tensors[name] for name in sorted(tensors)]


class Model(torch.nn.Module):
    """GPT-NeoX with parallel residual, names as Hugging Face has them."""

    def __init__(self, weights, heads):
        super().__init__()
        self.heads = heads
        self.names = list(weights)
        self.weights = torch.nn.ParameterList(
            [torch.nn.Parameter(torch.from_numpy(weights[name].copy()))
             for name in self.names])
        self.index = dict(zip(self.names, self.weights))
        self.layers = 1 + max(int(name.split(".")[2]) for name in self.names
                              if name.startswith("gpt_neox.layers."))
        self.cache = {}

    def angles(self, seq, dim):
        if (seq, dim) not in self.cache:
            rotary = int(dim * 0.25)
            steps = torch.arange(0, rotary, 2).float() / rotary
            frequency = 1.0 / (10000 ** steps)
            angle = torch.outer(torch.arange(seq).float(), frequency)
            angle = torch.cat((angle, angle), -1)
            mask = torch.full((seq, seq), float("-inf")).triu(1)
            self.cache[seq, dim] = rotary, angle.cos(), angle.sin(), mask
        return self.cache[seq, dim]

    @staticmethod
    def rotate(x, rotary, cos, sin):
        turned, rest = x[..., :rotary], x[..., rotary:]
        a, b = turned.chunk(2, -1)
        turned = turned * cos + torch.cat((-b, a), -1) * sin
        return torch.cat((turned, rest), -1)

    def norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], self.index[name + ".weight"],
                            self.index[name + ".bias"], 1e-5)

    def linear(self, x, name):
        return F.linear(x, self.index[name + ".weight"],
                        self.index[name + ".bias"])

    def attention(self, x, prefix):
        batch, seq, hidden = x.shape
        dim = hidden // self.heads
        qkv = self.linear(x, prefix + "attention.query_key_value")
        qkv = qkv.view(batch, seq, self.heads, 3 * dim).transpose(1, 2)
        query, key, value = qkv.chunk(3, -1)
        rotary, cos, sin, mask = self.angles(seq, dim)
        query = self.rotate(query, rotary, cos, sin)
        key = self.rotate(key, rotary, cos, sin)
        scores = query @ key.transpose(-1, -2) * dim ** -0.5 + mask
        context = scores.softmax(-1) @ value
        context = context.transpose(1, 2).reshape(batch, seq, hidden)
        return self.linear(context, prefix + "attention.dense")

    def mlp(self, x, prefix):
        h = F.gelu(self.linear(x, prefix + "mlp.dense_h_to_4h"))
        return self.linear(h, prefix + "mlp.dense_4h_to_h")

    def forward(self, tokens):
        x = F.embedding(tokens, self.index["gpt_neox.embed_in.weight"])
        for layer in range(self.layers):
            p = f"gpt_neox.layers.{layer}."
            x = (x + self.attention(self.norm(x, p + "input_layernorm"), p) +
                 self.mlp(self.norm(x, p + "post_attention_layernorm"), p))
        x = self.norm(x, "gpt_neox.final_layer_norm")
        return F.linear(x, self.index["embed_out.weight"])

    def loss(self, batch):
        """Mean cross entropy of a [batch, seq + 1] array of bytes."""
        batch = torch.from_numpy(batch.astype(numpy.int64))
        logits = self(batch[:, :-1])
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]),
                               batch[:, 1:].reshape(-1))


def learning_rate(step, steps, warmup, peak):
    """Of step number `step`, from 0."""
    if step < warmup:
        return peak * (step + 1) / warmup
    done = min(1.0, (step - warmup) / (steps - warmup)) \
        if steps > warmup else 1.0
    return peak * (0.1 + 0.45 * (1 + math.cos(math.pi * done)))


def optimizer_of(model):
    matrices = [w for w in model.weights if w.dim() > 1]
    vectors = [w for w in model.weights if w.dim() == 1]
    return torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1},
                              {"params": vectors, "weight_decay": 0.0}],
                             lr=1.0, betas=(0.9, 0.95), eps=1e-8)


def train(model, batches, steps, warmup, peak):
    """Trains on the batches; yields loss, gradient norm and, of the first
    step, the gradients by name (else None), as lull-train defines them."""
    optimizer = optimizer_of(model)
    for step, batch in enumerate(batches):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps, warmup, peak)
        optimizer.zero_grad()
        loss = model.loss(batch)
        loss.backward()
        grads = None
        if step == 0:
            grads = {name: weight.grad.numpy().copy()
                     for name, weight in model.index.items()}
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        yield loss.item(), norm.item(), grads
