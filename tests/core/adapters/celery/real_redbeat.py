"""RedBeat: stores schedules as an application does, and ticks once. `SERVER=URL real_redbeat.py`."""

from __future__ import annotations

from celery.schedules import crontab, schedule  # type: ignore[import-not-found]
from real import app  # type: ignore[import-not-found]
from redbeat import RedBeatScheduler, RedBeatSchedulerEntry  # type: ignore[import-not-found]

app.conf.update(redbeat_lock_key=None, timezone="Europe/Madrid")
RedBeatSchedulerEntry(
    "yearly", "real.count", crontab(minute=0, hour=3, day_of_month=1, month_of_year=1), args=["a"], app=app
).save()
RedBeatSchedulerEntry("hourly", "real.count", schedule(3600), args=["b"], options={"queue": "low"}, app=app).save()
RedBeatSchedulerEntry("off", "real.count", schedule(60), args=["c"], enabled=False, app=app).save()
entry = RedBeatSchedulerEntry.from_key("redbeat:hourly", app=app)
scheduler = RedBeatScheduler(app=app)
scheduler.apply_async(entry, advance=True)
