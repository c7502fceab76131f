/*
 * dm-verity trees as the kernel reads them (version 1, SHA-256, blocks of 4096 bytes): data blocks, the super block
 * that veritysetup writes, then the tree, its root block first. Made and checked here, so that neither needs root, a
 * block device or another tool.
 */
#ifndef APPLIANCE_RELEASE_TREE_H
#define APPLIANCE_RELEASE_TREE_H

#include "appliance/release/manifest.h"

/* Does the image of `size` bytes at `offset` of `fd` have this tree, every block of it and of the data? RELEASE_FILE.
 */
struct fault release_tree_check(struct op *op, int fd, uint64_t offset, uint64_t size, const struct release_tree *tree);
/* Pads the file with NUL to whole blocks and appends super block and tree. `salt`: 32 bytes. RELEASE_FILE when the file
 * is smaller than two blocks or larger than a part may be. */
struct fault release_tree_append(struct op *op, int fd, struct span salt, struct release_tree *ret_tree);

#endif
