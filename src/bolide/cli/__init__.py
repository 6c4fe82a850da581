"""The command line `bolide`: one file per noun, each a thin call of `node`, `client`, `admin`, `store` or `spark`.

Exit codes: 0 success, 1 failure, 2 wrong usage, 3 no server could be reached. Heavy imports are inside the commands, so
that `bolide --help` is fast.
"""
