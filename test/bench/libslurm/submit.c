/* submit N THREADS NAMES: submits N batch jobs through libslurm from THREADS
 * threads, each of which waits for the answer before it sends the next. NAMES
 * is "same" or "different". Prints the seconds that took. Exits 1, with
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

static int jobs, different;
static atomic_int next, failed;
static char *environment[] = {"PATH=/usr/bin:/bin", NULL};

static int submit(int number)
{
	job_desc_msg_t job;
	submit_response_msg_t *answer = NULL;
	char name[32] = "bench";

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
	int clients = count == 4 ? atoi(words[2]) : 0;

	if (clients < 1 || clients > MOST_THREADS) {
		fprintf(stderr, "usage: submit N THREADS same|different\n");
		return 2;
	}
	jobs = atoi(words[1]);
	different = strcmp(words[3], "different") == 0;
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
