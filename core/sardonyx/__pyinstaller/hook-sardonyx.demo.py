"""The model of digits and its pictures."""

from sardonyx.demo import MODEL, assets

datas = [(str(assets() / MODEL), "sardonyx/demo"), (str(assets() / "images"), "sardonyx/demo/images")]
