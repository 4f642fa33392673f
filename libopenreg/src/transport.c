// SPDX-License-Identifier: MIT
/* Select the transport by OPENREG_TRANSPORT. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const struct transport_ops *chosen;
static char why[400];

static const struct transport_ops *load_sim(void)
{
	const struct transport_ops *ops;
	void *lib = dlopen(OPENREG_SIM_LIBRARY, RTLD_NOW | RTLD_LOCAL);

	if (!lib) {
		snprintf(why, sizeof(why),
			 OPENREG_ENV_TRANSPORT "=sim needs " OPENREG_SIM_LIBRARY
			 ", which cannot be loaded (%s): build it with 'make sim' in the openreg checkout",
			 dlerror());
		return NULL;
	}
	ops = dlsym(lib, OPENREG_SIM_SYMBOL);
	if (ops && ops->size == sizeof(*ops))
		return ops;
	snprintf(why, sizeof(why),
		 OPENREG_SIM_LIBRARY " and libopenreg have different versions: build both from one source");
	dlclose(lib);
	return NULL;
}

static void choose(void)
{
	const char *name = getenv(OPENREG_ENV_TRANSPORT);

	if (!name || !*name || !strcmp(name, "kernel"))
		chosen = &openreg_drm_transport;
	else if (!strcmp(name, "sim"))
		chosen = load_sim();
	else
		snprintf(why, sizeof(why),
			 OPENREG_ENV_TRANSPORT " is '%s': set it to 'kernel' for /dev/openreg (the default) or to 'sim' for a card inside this process",
			 name);
}

const struct transport_ops *openreg_transport(void)
{
	pthread_once(&once, choose);
	if (!chosen)
		openreg_fail(-EINVAL, "%s", why);
	return chosen;
}
