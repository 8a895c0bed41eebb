"""The page runtime."""

from sardonyx.web import scripts

datas = [(str(scripts()), "sardonyx/web/scripts")]
