"""What becomes of each operator: functions of a quantizer and a node, which `registry.py` lists."""
