"""The command line `bolide`: one file a noun, each a thin call of `node`, `client`, `admin`, `store` or `spark`.

Exit codes: 0 done, 1 what was asked failed, 2 wrong usage, 3 nobody could be reached. Heavy imports stand inside the
verbs, so that `bolide --help` is quick.
"""
