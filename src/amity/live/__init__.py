"""The live page: who learns from whom, while it happens and afterwards.

A small server reads what runs and peers write to disk anyway, and tells it to browsers. It never
writes into what it shows, and whoever is watched does not know of it.

    finding     what a path holds: runs, comparisons, swarms, peers
    tracks      one directory followed line by line: a message for each round
    watched     one network: its directories, how it is doing, by what it is measured
    follower    all of them, and what is new for whom
    details     one round of a network; one peer through all rounds
    plan        order and places of peers for matrices and drawings
    standing    the table of a comparison as it grows
    where       address and port
    guard       who may ask: token, host, origin
    server      the routes; `beside` runs it beside a command (`--live`)
    mirror      another machine's page, read by its address
    web/        the page itself; `bundle` puts its parts into report.html
"""
