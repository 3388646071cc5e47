/* librekindle.so: a trainer whose micro-batches another language computes. It holds the link to the worker,
 * the step loop, the exchange, checkpoints, the sample order and the optimizers, and nothing of PyTorch. The
 * Python package `rekindle` calls it through ctypes; the layouts here and in python/rekindle/_library.py are
 * the same.
 *
 * A trainer process calls, in one thread: rk_open, rk_open_device, rk_set_state, rk_value for each tensor (where it
 * writes the initial values), rk_run. During rk_run the functions of rk_calls are called, in the same thread.
 *
 * Functions that return an int return 0, or another number after an error, whose text rk_error() returns.
 */
#ifndef REKINDLE_H
#define REKINDLE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RK_INTERFACE 6 /* grows with each change of this file */

typedef struct rk_trainer rk_trainer;

enum { RK_PARAMETER = 0, RK_BUFFER = 1, RK_OPTIMIZER = 2 };

/* A tensor of the state: parameters, then buffers, then those of the caller's own optimizer. */
typedef struct {
  const char* name;  /* its key in state_dict(); of an optimizer "exp_avg.KEY" */
  const char* dtype; /* "float32", ...; parameters are float32 */
  const int64_t* shape;
  int32_t dimensions;
  int32_t role;
} rk_tensor;

/* Where the state and the gradients are. On a GPU, every operation of the caller on them has to be on `stream`, and no
 * call has to wait until these operations have run. */
typedef struct {
  int32_t gpu;  /* its number among those that the process sees; -1: memory of the host */
  void* stream; /* a cudaStream_t; NULL: memory of the host */
} rk_device;

/* Of a metric: its mean is sum / count; with count 0 it has none. */
typedef struct {
  double sum;
  uint64_t count;
} rk_sum;

enum { RK_METRICS = 15 /* of a task at most */ };

/* One micro-batch. The call writes the gradient of the mean loss of parameter i to the floats from
 * gradient + rk_place(i) on, row-major, and sets received[i] to 1; a parameter without a gradient is left
 * alone. */
typedef struct {
  uint64_t step;
  int32_t micro_batch;
  float* gradient;
  uint8_t* received;      /* of each parameter; 0 before the call */
  const void** buffers;   /* to set: where the new value of each buffer lies, contiguous, until the next call, and
                             on a GPU until the stream has reached that call */
  const uint8_t* aborted; /* not 0: the micro-batch is not needed any more, return RK_ABORTED soon */
  double loss;            /* to set: mean over the samples */
  rk_sum* metrics;        /* to set: RK_METRICS of them, those of the job's script_metrics, then rk_add_metric's */
  double waited_ms;       /* to set: time spent waiting for samples */
} rk_micro_batch;

/* Test samples [first, first + count). */
typedef struct {
  uint64_t first, count;
  int32_t averaged; /* not 0: of the moving average, see rk_average() */
  rk_sum loss;      /* to set */
  rk_sum* metrics;  /* to set: as above */
} rk_evaluation;

/* One step of the caller's own optimizer. The gradient of parameter i, the mean over the step's samples, is at
 * gradient + rk_place(i), if received[i] is not 0. */
typedef struct {
  uint64_t step; /* from 0 */
  float* gradient;
  const uint8_t* received;
  double factor; /* of the learning rates: the schedule's, and rk_calls.rate_factor's */
} rk_step;

enum { RK_OK = 0, RK_FAILED = 1, RK_ABORTED = 2, RK_NOT_NOW = 3 };

/* Each returns RK_OK; RK_ABORTED; or RK_FAILED after rk_fail(). Of `train` and `evaluate` also RK_NOT_NOW after
 * rk_fail(): the samples cannot be read now, and the call is made again after a pause. */
typedef struct {
  /* Gives every tensor its initial value again. */
  int (*initialize)(void);
  /* The micro-batches that come next: `first` of `step`, then `all` of each later step. */
  int (*expect_steps)(uint64_t step, const int32_t* all, size_t all_count, const int32_t* first,
                      size_t first_count);
  int (*end_of_steps)(void);
  int (*train)(rk_micro_batch* batch);
  int (*evaluate)(rk_evaluation* evaluation);
  /* A factor of the learning rate of a step (from 0), a function of the step alone. NULL: always 1. */
  int (*rate_factor)(uint64_t step, double* factor);
  /* Only with an optimizer of the caller: one update of the parameters; its tensors to rk_value(), and from there. */
  int (*optimize)(rk_step* step);
  int (*save_optimizer)(void);
  int (*load_optimizer)(void);
  /* The device has no memory left: gives back what the caller keeps there for later. */
  int (*free_memory)(void);
} rk_calls;

int rk_interface(void); /* RK_INTERFACE of the library */
/* The library's version and the hash of its file, as in the fingerprints of its trainers. "": it cannot be read. */
const char* rk_build(void);
const char* rk_error(void);

/* Becomes a trainer: the arguments are those that the worker gave this process (argv[0] is ignored). Starts no
 * thread, and has read LOCAL_RANK when it returns. NULL: the error was printed, and the process has to end with rk_exit_code(). */
rk_trainer* rk_open(int argc, char** argv);
int rk_exit_code(void);
const char* rk_job(const rk_trainer* trainer); /* the job, as JSON */
void rk_log(int level, const char* text);      /* a line of the trainer's log; 0: info, 1: error, 2: warning */

/* Without a trainer: whether this build and the machine's driver can use GPUs. Opens none. Errors: why not. */
int rk_look_for_gpu(void);
/* Opens the device of the job: first of all calls that need memory. Errors: there is no such device. */
int rk_open_device(rk_trainer* trainer, rk_device* device);
/* `fingerprint`: what can change the bits on another machine, a JSON object of strings; `machine`: the same
 * for people. Errors: an optimizer or parameter group that does not exist. */
int rk_set_state(rk_trainer* trainer, const rk_tensor* tensors, size_t count, const char* fingerprint,
                 const char* machine);
/* Its memory, for the life of the trainer. An optimizer's: a copy in host memory, for the calls above. */
void* rk_value(rk_trainer* trainer, size_t tensor);
void* rk_average(rk_trainer* trainer, size_t tensor); /* of the moving average; NULL: there is none */
size_t rk_place(const rk_trainer* trainer, size_t tensor);

/* The training samples of a micro-batch: epoch and index of each. Returns their number, or 0 after an error. With NULL
 * only the number. */
size_t rk_samples(const rk_trainer* trainer, uint64_t step, int32_t micro_batch, uint64_t* epochs,
                  uint64_t* indices);
/* Keys of random numbers, functions of the run's seed: */
uint64_t rk_initial_key(uint64_t seed);
uint64_t rk_micro_batch_key(uint64_t seed, uint64_t step, int32_t micro_batch);
uint64_t rk_sample_key(uint64_t seed, uint64_t epoch, uint64_t index);

/* Within the first call of `train`: a metric more than those of the job. Every trainer's are the same ones. */
void rk_add_metric(rk_trainer* trainer, const char* name);
/* Within a call of rk_calls: why it fails. */
void rk_fail(rk_trainer* trainer, const char* what, const char* hint);
/* In place of rk_run(): tells the worker why this trainer cannot begin, and returns the exit code. `code`: 70, or
 * 78 if no trainer could (base/result.hpp). */
int rk_give_up(rk_trainer* trainer, int code, const char* what, const char* hint);
/* Trains until the run ends. Returns the exit code of the process. */
int rk_run(rk_trainer* trainer, const rk_calls* calls);

#ifdef __cplusplus
}
#endif
#endif
