"""The command line: its commands, those of other packages, and the list of operators."""

from PyInstaller.utils.hooks import collect_data_files, collect_entry_point, collect_submodules

from sardonyx.cli import GROUP

datas, hiddenimports = collect_entry_point(GROUP)
datas += collect_data_files("sardonyx.cli")
hiddenimports += collect_submodules("sardonyx.cli")
