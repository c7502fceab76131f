/* One object of the token: from the appliance's description of a key to attributes. Everything is copied into `arena`.
 * BAD_ARGUMENT, JSON_FIELD: what came cannot be such an object. */
#ifndef API_PKCS11_OBJECT_H
#define API_PKCS11_OBJECT_H

#include "api/pkcs11/keyring.h"

struct fault token_key_read(struct arena *arena, struct op *op, struct view description, struct token_key *ret_key);
/* `certificate`: the leaf of its chain, empty when there is none. */
struct fault object_private_key(struct arena *arena, const struct token_key *key, struct span certificate,
                                struct object *ret_object);
struct fault object_public_key(struct arena *arena, const struct token_key *key, struct object *ret_object);
/* `leaf_of`: the key that it is for; NULL for one further up a chain. */
struct fault object_certificate(struct arena *arena, const struct token_key *leaf_of, struct span der,
                                struct object *ret_object);

#endif
