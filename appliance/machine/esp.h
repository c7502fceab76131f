/*
 * Boot entries on the EFI system partition: EFI/Linux/svc-VERSION.efi, or svc-VERSION+LEFT[-DONE].efi while boot
 * counting watches over it (systemd-boot lowers LEFT, raises DONE, and puts entries without any left behind the
 * others). Nothing else in the folder is touched.
 *
 * The file system is FAT, without a journal: a name is changed in one folder block, then the folder is written through;
 * a file that, after a power cut in just that moment, goes by two names is never removed (its blocks would be given
 * away under the other name).
 */
#ifndef APPLIANCE_MACHINE_ESP_H
#define APPLIANCE_MACHINE_ESP_H

#include "appliance/release/container.h"

#define ESP_LABEL       "svc-esp"
#define ESP_FOLDER      "EFI/Linux"
#define ESP_NAME_MAX    63
#define ESP_ENTRIES_MAX 16

struct esp_entry {
    char name[ESP_NAME_MAX + 1];
    struct version version;
    bool counted;
    unsigned left, done; /* tries; of a counted one */
};
/* False: not a name of ours. */
bool esp_entry_parse(const char *name, struct esp_entry *ret_entry);

struct esp_entries {
    struct esp_entry at[ESP_ENTRIES_MAX];
    size_t count;
};
/* `folder` is the mounted ESP_FOLDER, in all of these. */
struct fault esp_list(struct op *op, const char *folder, struct esp_entries *ret_entries);
struct fault esp_remove(struct op *op, const char *folder, const char *name);
/* Drops what an interrupted esp_put left. */
struct fault esp_tidy(struct op *op, const char *folder);
/* Room for a file of `size` bytes once the entries of other versions than `kept` are gone? RELEASE_SPACE. */
struct fault esp_check_room(struct op *op, const char *folder, const struct esp_entries *entries, struct version kept,
                            uint64_t size);
/* The file's UKI under a temporary name that no boot loader takes; read back from the disk and compared. */
struct fault esp_write_uki(struct op *op, const char *folder, const struct release_file *file);
/* Makes that the entry of `version`, with one try. */
struct fault esp_try_uki(struct op *op, const char *folder, struct version version);
/* Takes the counting off an entry. */
struct fault esp_keep(struct op *op, const char *folder, const struct esp_entry *entry);

/* Mounts the partition at `target` (made, 0700); esp_unmount leaves it. */
struct fault esp_mount(struct op *op, const char *target);
struct fault esp_unmount(struct op *op, const char *target);

#endif
