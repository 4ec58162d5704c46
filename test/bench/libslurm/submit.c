/* submit N THREADS NAMES [GPUS]: submits N batch jobs through libslurm from
 * THREADS threads, each of which waits for the answer before it sends the next.
 * NAMES is "same" or "different". GPUS is "whole" for jobs that have the 8 GPUs
 * of a node for ten hours, or "simple" for jobs of 1 to 8 GPUs of a node and 250
 * unlike time limits: those of test/curve/queue. Prints the seconds that took. Exits 1, with
 * Slurm's sentence, when one is refused; a full queue of the daemon is waited
 * for, as sbatch does. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>

enum { MOST_THREADS = 64, ATTEMPTS = 100, PATIENCE_US = 50000 };

static int jobs, different, whole, simple;
static atomic_int next, failed;
static char *environment[] = {"PATH=/usr/bin:/bin", NULL};

static int submit(int number)
{
	job_desc_msg_t job;
	submit_response_msg_t *answer = NULL;
	char name[32] = "bench", gpus[32];

	if (different)
		snprintf(name, sizeof name, "bench-%d", number);
	slurm_init_job_desc_msg(&job);
	job.name = name;
	job.script = "#!/bin/sh\nexec /bin/true\n";
	job.environment = environment;
	job.env_size = 1;
	job.work_dir = "/";
	job.std_in = job.std_out = job.std_err = "/dev/null";
	job.user_id = getuid();
	job.group_id = getgid();
	job.min_nodes = job.max_nodes = job.num_tasks = 1;
	job.time_limit = 60;
	if (whole || simple) {
		snprintf(gpus, sizeof gpus, "gres/gpu:%d", whole ? 8 : 1 + number % 8);
		job.tres_per_node = gpus;
		job.time_limit = whole ? 600 : 10 + number / 8 % 250 * 7;
	}
	for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
		if (slurm_submit_batch_job(&job, &answer) == 0) {
			slurm_free_submit_response_response_msg(answer);
			return 0;
		}
		if (errno != EAGAIN)
			break;
		usleep(PATIENCE_US);
	}
	fprintf(stderr, "submit: job %d: %s\n", number, slurm_strerror(errno));
	return -1;
}

static void *client(void *unused)
{
	(void)unused;
	for (int number; !failed && (number = next++) < jobs;)
		if (submit(number) != 0)
			failed = 1;
	return NULL;
}

int main(int count, char **words)
{
	pthread_t threads[MOST_THREADS];
	struct timespec begin, end;
	int clients = count == 4 || count == 5 ? atoi(words[2]) : 0;

	if (clients < 1 || clients > MOST_THREADS) {
		fprintf(stderr, "usage: submit N THREADS same|different [whole|simple]\n");
		return 2;
	}
	jobs = atoi(words[1]);
	different = strcmp(words[3], "different") == 0;
	whole = count == 5 && strcmp(words[4], "whole") == 0;
	simple = count == 5 && strcmp(words[4], "simple") == 0;
	slurm_init(NULL);
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (int i = 0; i < clients; i++)
		pthread_create(&threads[i], NULL, client, NULL);
	for (int i = 0; i < clients; i++)
		pthread_join(threads[i], NULL);
	clock_gettime(CLOCK_MONOTONIC, &end);
	printf("%.6f\n", (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9);
	return failed;
}
