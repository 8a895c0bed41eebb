"""The engine: modules that are found by name, execution providers that are found by entry points, and their metadata.

Operators are found by the text of their modules, so these are kept as sources as well.
"""

from PyInstaller.utils.hooks import collect_entry_point, collect_submodules, copy_metadata

from sardonyx.providers.registry import GROUP, OURS

APART = (
    "sardonyx.__main__",
    "sardonyx.__pyinstaller",
    "sardonyx.cli",
    "sardonyx.demo",
    "sardonyx.genai",
    "sardonyx.web",
)
"""What only some programs import, and then has a hook of its own."""

datas, hiddenimports = collect_entry_point(GROUP)
datas += copy_metadata("sardonyx")
hiddenimports += OURS.values()
hiddenimports += collect_submodules("sardonyx", filter=lambda name: not name.startswith(APART))
module_collection_mode = {"sardonyx.ops": "pyz+py"}
