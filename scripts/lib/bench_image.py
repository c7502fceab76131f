"""scripts/bench image: figures of the appliance image beside the goals of its size, its start and its memory."""
import json
import sys

GOALS = (("compressed_mib", "disk, compressed", "MiB", 250), ("first_boot_s", "power on to ready, first time", "s", 90),
         ("second_boot_s", "power on to ready, afterwards", "s", 90), ("memory_mib", "memory in use, idle", "MiB", 400))


def main():
    with open(sys.argv[1]) as file:
        figures = json.load(file)
    print(f"{'appliance image (small), in emulation':40} {'measured':>10} {'goal':>10}")
    for name, text, unit, goal in GOALS:
        print(f"{text:40} {figures[name]:>6.0f} {unit:3} {'under':>6} {goal}")


main()
