"""Bridges between the contract and other libraries; every one of them is an optional dependency."""
