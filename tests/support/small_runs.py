"""The beginning of a configuration whose training takes a second: Nim, a tiny network, one device, no cache."""

from __future__ import annotations

NIM = """
env: {id: "examples.nim:Nim"}
run: {devices: 1, cache_dir: ""}
network: {hidden: [8]}
ppo: {minibatches: 2}
"""
