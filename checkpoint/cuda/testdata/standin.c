/*
 * A stand-in for libcuda: the checkpoint calls, without a GPU. What it knows is
 * kept in the directory STANDIN, so that it outlives the process:
 *
 *   PID       the state of a process of CUDA, a digit
 *   log       one line for each call
 *   fault     lines "CALL NTH ACTION [CODE]": what to do at the NTH call of this
 *             name, counted over all processes; 0 = at each
 *   count.X   how often X was called
 *   wrong     what was wrong with arguments
 *   pairs     the GPUs of restores
 *   inside    if it is there, processes go by their numbers in their own
 *             namespace: they stay when they are restored elsewhere
 *
 * Actions: fail CODE, hang, crash, and each of them with "late" in front: after
 * the state has changed; lie: answer success and change nothing; fault: the
 * process is in the failed state; end: the process is gone (its directory in
 * STANDIN/proc is renamed).
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RUNNING, LOCKED, CHECKPOINTED, FAILED };
enum { SUCCESS = 0, INVALID_VALUE = 1, NOT_INITIALIZED = 3, ILLEGAL_STATE = 401 };

typedef struct { uint32_t timeout_ms; uint32_t reserved0; uint64_t reserved1[7]; } lock_args;
typedef struct { uint64_t reserved[8]; } plain_args;
typedef struct { unsigned char from[16], to[16]; } gpu_pair;
typedef struct { gpu_pair *pairs; unsigned count; char reserved[44]; uint64_t reserved1; } restore_args;

static int initialized;

static const char *at(const char *name)
{
	static char path[8][4096];
	static int next;
	char *p = path[next++ & 7];
	snprintf(p, sizeof path[0], "%s/%s", getenv("STANDIN"), name);
	return p;
}

static void note(const char *file, const char *text)
{
	FILE *f = fopen(at(file), "a");
	fprintf(f, "%s\n", text);
	fclose(f);
}

static int number(const char *file, int otherwise)
{
	int n = otherwise;
	FILE *f = fopen(at(file), "r");
	if (f) {
		if (fscanf(f, "%d", &n) != 1)
			n = otherwise;
		fclose(f);
	}
	return n;
}

/* Whole or not at all: whoever calls may be killed in the middle. */
static void set_number(const char *file, int n)
{
	char whole[64];
	snprintf(whole, sizeof whole, "%s.new", file);
	FILE *f = fopen(at(whole), "w");
	fprintf(f, "%d\n", n);
	fclose(f);
	rename(at(whole), at(file));
}

static const char *of(int pid)
{
	static char name[32];
	snprintf(name, sizeof name, "%d", pid);
	if (!access(at("inside"), F_OK)) {
		char path[64], line[256], *p;
		snprintf(path, sizeof path, "/proc/%d/status", pid);
		FILE *f = fopen(path, "r");
		while (f && fgets(line, sizeof line, f))
			if (!strncmp(line, "NSpid:", 6) && (p = strrchr(line, '\t')))
				snprintf(name, sizeof name, "%d", atoi(p));
		if (f)
			fclose(f);
	}
	return name;
}

static int zero(const void *memory, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (((const char *)memory)[i])
			return 0;
	return 1;
}

/* what the fault file says of this call; "" = nothing */
static const char *fault(const char *call, int *code)
{
	static char action[32];
	char file[64], name[64], line[256];
	int nth, n;
	snprintf(file, sizeof file, "count.%s", call);
	n = number(file, 0) + 1;
	set_number(file, n);
	*code = 0;
	FILE *f = fopen(at("fault"), "r");
	if (!f)
		return "";
	while (fgets(line, sizeof line, f))
		if (sscanf(line, "%63s %d %31s %d", name, &nth, action, code) >= 3 && !strcmp(name, call) && (nth == n || nth == 0)) {
			fclose(f);
			return action;
		}
	fclose(f);
	return "";
}

static int act(const char *action, int code)
{
	if (!strcmp(action, "fail"))
		return code;
	if (!strcmp(action, "hang"))
		for (;;)
			pause();
	if (!strcmp(action, "crash"))
		abort();
	return SUCCESS;
}

static int change(const char *call, int pid, int from, int to)
{
	char line[128];
	int code, r;
	const char *action = fault(call, &code);
	snprintf(line, sizeof line, "%s %d", call, pid);
	note("log", line);
	if (!initialized)
		return NOT_INITIALIZED;
	if (number(of(pid), -1) < 0)
		return INVALID_VALUE;
	if (strncmp(action, "late", 4)) {
		if (!strcmp(action, "lie"))
			return SUCCESS;
		if (!strcmp(action, "fault")) {
			set_number(of(pid), FAILED);
			return 999;
		}
		if (!strcmp(action, "end")) {
			char to_name[64], from_name[64];
			snprintf(from_name, sizeof from_name, "proc/%d", pid);
			snprintf(to_name, sizeof to_name, "proc/gone.%d", pid);
			rename(at(from_name), at(to_name));
			unlink(at(of(pid)));
			return INVALID_VALUE;
		}
		if ((r = act(action, code)))
			return r;
	}
	if (number(of(pid), -1) != from)
		return ILLEGAL_STATE;
	set_number(of(pid), to);
	if (!strncmp(action, "late", 4))
		return act(action + 4, code);
	return SUCCESS;
}

int cuInit(unsigned flags)
{
	int code;
	const char *action = fault("init", &code);
	int r = flags ? INVALID_VALUE : act(action, code);
	initialized = r == SUCCESS;
	/* The driver library writes where it likes. */
	puts("stand-in: noise");
	fflush(stdout);
	return r;
}

int cuDriverGetVersion(int *version)
{
	*version = 13000;
	return SUCCESS;
}

int cuGetErrorName(int code, const char **name)
{
	static const struct { int code; const char *name; } names[] = {
		{1, "CUDA_ERROR_INVALID_VALUE"}, {100, "CUDA_ERROR_NO_DEVICE"}, {401, "CUDA_ERROR_ILLEGAL_STATE"}, {801, "CUDA_ERROR_NOT_SUPPORTED"},
	};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (names[i].code == code) {
			*name = names[i].name;
			return SUCCESS;
		}
	*name = NULL;
	return INVALID_VALUE;
}

int cuCheckpointProcessGetState(int pid, int *state)
{
	int code, r, is = number(of(pid), -1);
	const char *action = fault("state", &code);
	if (!initialized)
		return NOT_INITIALIZED;
	if ((r = act(action, code)))
		return r;
	if (is < 0)
		return INVALID_VALUE;
	*state = is;
	return SUCCESS;
}

int cuCheckpointProcessLock(int pid, lock_args *args)
{
	if (!args || args->timeout_ms == 0 || args->reserved0 || !zero(args->reserved1, sizeof args->reserved1))
		note("wrong", "lock: arguments");
	return change("lock", pid, RUNNING, LOCKED);
}

int cuCheckpointProcessCheckpoint(int pid, plain_args *args)
{
	if (!args || !zero(args, sizeof *args))
		note("wrong", "checkpoint: arguments");
	return change("checkpoint", pid, LOCKED, CHECKPOINTED);
}

int cuCheckpointProcessRestore(int pid, restore_args *args)
{
	char line[128], *p = line;
	if (!args || !zero(args->reserved, sizeof args->reserved) || args->reserved1 || !args->pairs != !args->count)
		note("wrong", "restore: arguments");
	for (unsigned i = 0; args && i < args->count && i < 2; i++) {
		for (int b = 0; b < 16; b++)
			p += sprintf(p, "%02x", args->pairs[i].from[b]);
		*p++ = '>';
		p += sprintf(p, "%02x%02x ", args->pairs[i].to[0], args->pairs[i].to[15]);
	}
	*p = 0;
	if (p != line)
		note("pairs", line);
	return change("restore", pid, CHECKPOINTED, LOCKED);
}

int cuCheckpointProcessUnlock(int pid, plain_args *args)
{
	if (!args || !zero(args, sizeof *args))
		note("wrong", "unlock: arguments");
	return change("unlock", pid, LOCKED, RUNNING);
}
