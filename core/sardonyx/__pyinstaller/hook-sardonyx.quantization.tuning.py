"""Reports of what quantizing cost: their template."""

from PyInstaller.utils.hooks import collect_data_files

datas = collect_data_files("sardonyx.quantization.tuning")
