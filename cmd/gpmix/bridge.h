#include <stdint.h>

#include <pmix.h>
#include <pmix_server.h>

// What the Go side asks of the library. Each returns a status of PMIx.

// gp_begin starts the server: host is this node's name, dir is for its sockets and files.
pmix_status_t gp_begin(const char *host, const char *dir);

// gp_job describes the tasks. nodes are names with commas between them, ranks are the
// nodes' ranks, with semicolons between nodes. Of each rank there are the number of its
// node and its place there; those of this node are peers.
pmix_status_t gp_job(const char *space, const char *id, const char *nodes, const char *ranks, const char *peers, const char *dir, const char **names,
	const uint32_t *node, const uint16_t *local, uint32_t size, uint32_t node_count, uint32_t here, uint32_t peer_count);

// gp_client lets a task connect. What it must have in its environment is answered as
// NAME=VALUE, of which there are so many.
pmix_status_t gp_client(const char *space, uint32_t rank, char ***env, size_t *count);

void gp_free(char **env, size_t count);

// gp_fenced gives the tasks what all nodes have put; data is the library's from here on.
void gp_fenced(void *fence, pmix_status_t status, char *data, size_t bytes);

pmix_status_t gp_end(void);
