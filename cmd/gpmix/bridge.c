//go:build pmix

#include "bridge.h"
#include "_cgo_export.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Some calls of the library end in a function that another thread calls: they are waited for.
struct ended {
	pthread_mutex_t lock;
	pthread_cond_t over;
	int done;
	pmix_status_t status;
};

static void on_ended(pmix_status_t status, void *data)
{
	struct ended *e = data;
	pthread_mutex_lock(&e->lock);
	e->status = status;
	e->done = 1;
	pthread_cond_signal(&e->over);
	pthread_mutex_unlock(&e->lock);
}

// wait_ended is of a call that answered asked, to which on_ended was given.
static pmix_status_t wait_ended(struct ended *e, pmix_status_t asked)
{
	if (asked == PMIX_OPERATION_SUCCEEDED)
		return PMIX_SUCCESS;
	if (asked != PMIX_SUCCESS)
		return asked;
	pthread_mutex_lock(&e->lock);
	while (!e->done)
		pthread_cond_wait(&e->over, &e->lock);
	pthread_mutex_unlock(&e->lock);
	return e->status;
}

#define ENDED { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, PMIX_SUCCESS }

static pmix_status_t on_connected(const pmix_proc_t *proc, void *object, pmix_info_t info[], size_t count, pmix_op_cbfunc_t answer, void *data)
{
	(void)object, (void)info, (void)count, (void)answer, (void)data;
	goConnected(proc->rank);
	return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t on_finalized(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t answer, void *data)
{
	(void)object, (void)answer, (void)data;
	goFinalized(proc->rank);
	return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t on_abort(const pmix_proc_t *proc, void *object, int status, const char text[], pmix_proc_t procs[], size_t count, pmix_op_cbfunc_t answer, void *data)
{
	(void)object, (void)procs, (void)count, (void)answer, (void)data;
	goAbort(proc->rank, status, (char *)text);
	return PMIX_OPERATION_SUCCEEDED;
}

struct fence {
	pmix_modex_cbfunc_t answer;
	void *data;
};

static pmix_status_t on_fence(const pmix_proc_t procs[], size_t count, const pmix_info_t info[], size_t infos, char *data, size_t bytes, pmix_modex_cbfunc_t answer, void *cbdata)
{
	(void)info, (void)infos;
	uint32_t *ranks = calloc(count ? count : 1, sizeof(*ranks));
	struct fence *fence = malloc(sizeof(*fence));
	if (!ranks || !fence) {
		free(ranks);
		free(fence);
		return PMIX_ERR_NOMEM;
	}
	for (size_t i = 0; i < count; i++)
		ranks[i] = procs[i].rank;
	fence->answer = answer;
	fence->data = cbdata;
	pmix_status_t status = goFence(fence, ranks, count, data, bytes);
	if (status == PMIX_SUCCESS)
		free(data); // it is ours
	else
		free(fence);
	free(ranks);
	return status;
}

void gp_fenced(void *of, pmix_status_t status, char *data, size_t bytes)
{
	struct fence *fence = of;
	fence->answer(status, data, bytes, fence->data, free, data);
	free(fence);
}

// What is put is given to all at a fence. What is asked for otherwise, nobody has.
static pmix_status_t on_modex(const pmix_proc_t *proc, const pmix_info_t info[], size_t count, pmix_modex_cbfunc_t answer, void *data)
{
	(void)proc, (void)info, (void)count, (void)answer, (void)data;
	return PMIX_ERR_NOT_FOUND;
}

static pmix_server_module_t module = {
	.client_connected2 = on_connected,
	.client_finalized = on_finalized,
	.abort = on_abort,
	.fence_nb = on_fence,
	.direct_modex = on_modex,
};

pmix_status_t gp_begin(const char *host, const char *dir)
{
	pmix_info_t info[4];
	bool no = false;
	PMIX_INFO_LOAD(&info[0], PMIX_HOSTNAME, host, PMIX_STRING);
	PMIX_INFO_LOAD(&info[1], PMIX_SERVER_TMPDIR, dir, PMIX_STRING);
	PMIX_INFO_LOAD(&info[2], PMIX_SYSTEM_TMPDIR, dir, PMIX_STRING);
	PMIX_INFO_LOAD(&info[3], PMIX_SERVER_TOOL_SUPPORT, &no, PMIX_BOOL);
	pmix_status_t status = PMIx_server_init(&module, info, 4);
	for (int i = 0; i < 4; i++)
		PMIX_INFO_DESTRUCT(&info[i]);
	return status;
}

// rank_data describes one rank.
static void rank_data(pmix_info_t *into, uint32_t rank, const char *host, uint32_t node, uint16_t local)
{
	pmix_data_array_t array;
	pmix_info_t *info;
	uint32_t zero = 0;
	PMIX_INFO_CREATE(info, 10);
	PMIX_INFO_LOAD(&info[0], PMIX_RANK, &rank, PMIX_PROC_RANK);
	PMIX_INFO_LOAD(&info[1], PMIX_APPNUM, &zero, PMIX_UINT32);
	PMIX_INFO_LOAD(&info[2], PMIX_APPLDR, &zero, PMIX_PROC_RANK);
	PMIX_INFO_LOAD(&info[3], PMIX_GLOBAL_RANK, &rank, PMIX_PROC_RANK);
	PMIX_INFO_LOAD(&info[4], PMIX_APP_RANK, &rank, PMIX_PROC_RANK);
	PMIX_INFO_LOAD(&info[5], PMIX_LOCAL_RANK, &local, PMIX_UINT16);
	PMIX_INFO_LOAD(&info[6], PMIX_NODE_RANK, &local, PMIX_UINT16);
	PMIX_INFO_LOAD(&info[7], PMIX_NODEID, &node, PMIX_UINT32);
	PMIX_INFO_LOAD(&info[8], PMIX_HOSTNAME, host, PMIX_STRING);
	PMIX_INFO_LOAD(&info[9], PMIX_REINCARNATION, &zero, PMIX_UINT32);
	array.type = PMIX_INFO;
	array.size = 10;
	array.array = info;
	PMIX_INFO_LOAD(into, PMIX_PROC_DATA, &array, PMIX_DATA_ARRAY);
	PMIX_INFO_FREE(info, 10);
}

pmix_status_t gp_job(const char *space, const char *id, const char *nodes, const char *ranks, const char *peers, const char *dir, const char **names,
	const uint32_t *node, const uint16_t *local, uint32_t size, uint32_t node_count, uint32_t here, uint32_t peer_count)
{
	char *node_map = NULL, *rank_map = NULL;
	pmix_status_t status = PMIx_generate_regex(nodes, &node_map);
	if (status == PMIX_SUCCESS)
		status = PMIx_generate_ppn(ranks, &rank_map);
	if (status != PMIX_SUCCESS) {
		free(node_map);
		return status;
	}
	enum { facts = 17 };
	pmix_info_t *info;
	size_t count = facts + size, at = 0;
	bool no = false;
	uint32_t one = 1;
	pmix_rank_t leader = (pmix_rank_t)strtoul(peers, NULL, 10);
	PMIX_INFO_CREATE(info, count);
	PMIX_INFO_LOAD(&info[at++], PMIX_JOBID, id, PMIX_STRING);
	PMIX_INFO_LOAD(&info[at++], PMIX_UNIV_SIZE, &size, PMIX_UINT32);
	PMIX_INFO_LOAD(&info[at++], PMIX_JOB_SIZE, &size, PMIX_UINT32);
	PMIX_INFO_LOAD(&info[at++], PMIX_APP_SIZE, &size, PMIX_UINT32);
	PMIX_INFO_LOAD(&info[at++], PMIX_MAX_PROCS, &size, PMIX_UINT32);
	PMIX_INFO_LOAD(&info[at++], PMIX_JOB_NUM_APPS, &one, PMIX_UINT32);
	PMIX_INFO_LOAD(&info[at++], PMIX_SPAWNED, &no, PMIX_BOOL);
	PMIX_INFO_LOAD(&info[at++], PMIX_NUM_NODES, &node_count, PMIX_UINT32);
	PMIX_INFO_LOAD(&info[at++], PMIX_NODE_MAP, node_map, PMIX_REGEX);
	PMIX_INFO_LOAD(&info[at++], PMIX_PROC_MAP, rank_map, PMIX_REGEX);
	PMIX_INFO_LOAD(&info[at++], PMIX_NODEID, &here, PMIX_UINT32);
	PMIX_INFO_LOAD(&info[at++], PMIX_LOCAL_SIZE, &peer_count, PMIX_UINT32);
	PMIX_INFO_LOAD(&info[at++], PMIX_NODE_SIZE, &peer_count, PMIX_UINT32);
	PMIX_INFO_LOAD(&info[at++], PMIX_LOCAL_PEERS, peers, PMIX_STRING);
	PMIX_INFO_LOAD(&info[at++], PMIX_LOCALLDR, &leader, PMIX_PROC_RANK);
	PMIX_INFO_LOAD(&info[at++], PMIX_TMPDIR, dir, PMIX_STRING);
	PMIX_INFO_LOAD(&info[at++], PMIX_NSDIR, dir, PMIX_STRING);
	for (uint32_t rank = 0; rank < size; rank++)
		rank_data(&info[at++], rank, names[node[rank]], node[rank], local[rank]);
	struct ended e = ENDED;
	status = wait_ended(&e, PMIx_server_register_nspace(space, peer_count, info, count, on_ended, &e));
	PMIX_INFO_FREE(info, count);
	free(node_map);
	free(rank_map);
	return status;
}

pmix_status_t gp_client(const char *space, uint32_t rank, char ***env, size_t *count)
{
	pmix_proc_t proc;
	struct ended e = ENDED;
	PMIX_LOAD_PROCID(&proc, space, rank);
	pmix_status_t status = wait_ended(&e, PMIx_server_register_client(&proc, getuid(), getgid(), NULL, on_ended, &e));
	if (status != PMIX_SUCCESS)
		return status;
	*env = NULL;
	*count = 0;
	status = PMIx_server_setup_fork(&proc, env);
	while (*env && (*env)[*count])
		++*count;
	return status;
}

void gp_free(char **env, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(env[i]);
	free(env);
}

pmix_status_t gp_end(void) { return PMIx_server_finalize(); }
