"""Cron schedules: rules that make jobs, each turn once however many tickers there are."""
