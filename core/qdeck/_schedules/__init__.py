"""Cron schedules: rules that make jobs, each run once however many tickers there are."""
