"""Ticks of cron schedules, computed by python3's zoneinfo and by brute force: one list of all minutes.

    python3 ticks.py > ticks.txt

Each line of its output is a schedule, a zone, one of WINDOWS (its start in seconds since 1970, and its days) and the
ticks in it: each as the minutes since the one before, "30x48" for 48 times 30. It shares no code and no idea with the
Go program: that one goes from tick to tick by a library's parser, and this one asks of every minute of real time, and
of every minute of the wall clock, whether it fits.
"""
import datetime as dt
from zoneinfo import ZoneInfo

UTC = dt.timezone.utc
MINUTE = dt.timedelta(minutes=1)
# A month or more around each change of the clocks, in spring and in autumn, of either half of the earth.
WINDOWS = [(dt.datetime(2026, 3, 8, tzinfo=UTC), 50), (dt.datetime(2026, 10, 3, tzinfo=UTC), 30),
           (dt.datetime(2026, 8, 20, tzinfo=UTC), 30)]
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "America/Santiago", "Australia/Lord_Howe", "Africa/Cairo"]


def field(text, low, high):
    """The values of one field; None for every value ("*")."""
    if text == "*":
        return None
    values = set()
    for part in text.split(","):
        part, _, step = part.partition("/")
        first, _, last = part.partition("-")
        if first == "*":
            first, last = low, high
        elif last == "":
            last = high if step else first
        values.update(range(int(first), int(last) + 1, int(step or 1)))
    return values


class Cron:
    def __init__(self, text):
        minute, hour, day, month, weekday = text.split()
        self.minute, self.hour = field(minute, 0, 59), field(hour, 0, 23)
        self.day, self.month, self.weekday = field(day, 1, 31), field(month, 1, 12), field(weekday, 0, 7)
        if self.weekday is not None:
            self.weekday = {d % 7 for d in self.weekday}

    def fits(self, wall):
        if self.minute is not None and wall.minute not in self.minute:
            return False
        if self.hour is not None and wall.hour not in self.hour:
            return False
        if self.month is not None and wall.month not in self.month:
            return False
        day = self.day is None or wall.day in self.day
        weekday = self.weekday is None or wall.isoweekday() % 7 in self.weekday
        if self.day is not None and self.weekday is not None:
            return day or weekday
        return day and weekday


def runs_at(wall, zone):
    """The instant of a wall-clock minute by the rule: the first of two, and the end of the gap if there is none."""
    for fold in (0, 1):
        at = wall.replace(tzinfo=zone, fold=fold).astimezone(UTC)
        if at.astimezone(zone).replace(tzinfo=None) == wall:
            return at
    at = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    before = at.astimezone(zone).utcoffset()
    while at.astimezone(zone).utcoffset() == before:  # forward to the change; fold 1 lies before it
        at += MINUTE
    return at


def ticks(cron, zone, start, end):
    found = set()
    if cron.hour is None:  # every hour: real time
        at = start
        while at < end:
            at += MINUTE
            if cron.fits(at.astimezone(zone).replace(tzinfo=None)):
                found.add(at)
    else:
        wall = start.replace(tzinfo=None) - dt.timedelta(days=2)
        while wall < end.replace(tzinfo=None) + dt.timedelta(days=2):
            wall += MINUTE
            if cron.fits(wall):
                found.add(runs_at(wall, zone))
    return sorted(at for at in found if start < at <= end)


def schedules():
    """Two hundred, many of them in the hours that are skipped or come twice."""
    every = ["*/30 * * * *", "7 * * * *", "0,15,45 * * * *", "59 * * * 1-5", "*/20 * 1 * *", "0 * * * 0", "13 * 8-31/3 * *"]
    fixed = ["30 2 * * *", "0 2 * * *", "0 0 * * *", "15 1 * * *", "*/15 2 * * *", "*/10 1-3 * * *", "0 */2 * * *", "0 3 * * *",
             "59 1 * * *", "0 23 * * *", "30 0 * * *", "*/20 0 * * *", "0 2 * * 0", "0 0 13 * 5", "45 2 1 * *", "5 4 * * 7",
             "0,30 1,2,3 * * *", "0 12 * * 1-5", "1 1 */2 * *", "0 0 1 4,10 *", "30 1 * * 6,0", "10 2-4 * * *", "15 0-23/3 * * *",
             "59 23 31 3 *", "40 2 29 3 *", "50 1 25 10 *"]
    number = 0
    while True:
        for text in every + fixed:
            for zone in ZONES:
                yield text, zone
                number += 1
                if number >= 198:
                    for text, zone in (("0 0 31 12 *", "Europe/Berlin"), ("* * 29 3 *", "Europe/Berlin")):
                        yield text, zone
                    return


def main():
    for text, zone in schedules():
        cron, place = Cron(text), ZoneInfo(zone)
        for start, days in WINDOWS:
            found = ticks(cron, place, start, start + dt.timedelta(days=days))
            at, steps = start, []
            for tick in found:
                steps.append(int((tick - at).total_seconds()) // 60)
                at = tick
            packed, i = [], 0
            while i < len(steps):
                j = i
                while j < len(steps) and steps[j] == steps[i]:
                    j += 1
                packed.append(f"{steps[i]}x{j - i}" if j - i > 1 else str(steps[i]))
                i = j
            print(text, zone, int(start.timestamp()), days, " ".join(packed), sep="|")


main()
