"""A server of Flower that averages what two clients or more have learnt, for ten rounds.

pip install flwr
python examples/federated/server.py
"""

from __future__ import annotations

from typing import Any

from flwr.server import ServerConfig, start_server
from flwr.server.strategy import FedAvg


def learning(number: int) -> dict[str, Any]:
    """What clients are told in a round."""
    return {"learning_rate": 0.05, "steps": 5}


if __name__ == "__main__":
    start_server(config=ServerConfig(num_rounds=10), strategy=FedAvg(on_fit_config_fn=learning))
