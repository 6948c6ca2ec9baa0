/* A plug-in in C. FAULT says what is wrong with it; without FAULT it is sound. */
#include <math.h>
#include <stdlib.h>

#include "spindrift/plugin.h"

#ifndef FAULT
#define FAULT none
#endif
enum fault {
  none,
  no_symbol,
  no_table,
  wrong_version,
  small_table,
  huge_table,
  no_parts,
  no_list,
  null_part,
  small_cc,
  no_name,
  bad_name,
  null_function,
  nan_parameter,
  default_out_of_bounds,
  no_parameters,
  clash,
  twice,
  small_path,
  null_pick
};

typedef struct {
  uint64_t window_bytes;
} state;

static void* make(const void* context, const spindrift_plugin_flow* flow, const double* values,
                  size_t value_count) {
  state* self = malloc(sizeof *self);
  (void)context;
  if (self != NULL && value_count == 1) self->window_bytes = (uint64_t)values[0] * flow->mtu_bytes;
  return self;
}
static void initial(const void* self, spindrift_plugin_limits* limits) {
  limits->window_bytes = ((const state*)self)->window_bytes;
}
/* Leaves the limits as they are. */
static void on_ack(void* self, const spindrift_plugin_ack* event, spindrift_plugin_limits* limits) {
  (void)self;
  (void)event;
  (void)limits;
}
static void on_loss(void* self, const spindrift_plugin_loss* event,
                    spindrift_plugin_limits* limits) {
  (void)self;
  (void)event;
  (void)limits;
}
static void on_signal(void* self, const spindrift_plugin_signal* event,
                      spindrift_plugin_limits* limits) {
  (void)self;
  (void)event;
  (void)limits;
}

static void* make_path(const void* context, uint32_t path_count, uint64_t seed) {
  uint32_t* self = malloc(sizeof *self);
  (void)context;
  (void)seed;
  if (self != NULL) *self = path_count - 1;
  return self;
}
static void pick_last(void* self, uint16_t* paths, size_t count) {
  size_t i;
  for (i = 0; i < count; ++i)
    paths[i] = (uint16_t) * (uint32_t*)self;
}
static void ignore_feedback(void* self, const spindrift_plugin_feedback* feedback, size_t count) {
  (void)self;
  (void)feedback;
  (void)count;
}

static spindrift_plugin_parameter parameter = {"packets", "packets", 4, 1, 64, "window", "measured"};
static spindrift_plugin_cc cc;
static spindrift_plugin_path_selector path;
static const spindrift_plugin_cc* ccs[] = {&cc, &cc};
static const spindrift_plugin_path_selector* const paths[] = {&path};
static spindrift_plugin_table table;

static void fill(void) {
  cc.struct_size = FAULT == small_cc ? 16 : sizeof cc;
  cc.name = FAULT == no_name ? NULL : FAULT == bad_name ? "Plain C" : "plain_c";
  if (FAULT == clash) cc.name = "nscc";
  cc.summary = "the window in C";
  cc.parameter_count = 1;
  cc.parameters = FAULT == no_parameters ? NULL : &parameter;
  if (FAULT == nan_parameter) parameter.max = NAN;
  if (FAULT == default_out_of_bounds) parameter.default_value = 65;
  cc.make = make;
  cc.destroy = free;
  cc.initial = initial;
  cc.on_ack = FAULT == null_function ? NULL : on_ack;
  cc.on_loss = on_loss;
  cc.on_signal = on_signal;
  path.struct_size = FAULT == small_path ? 1 : sizeof path;
  path.name = "last";
  path.summary = "the last path";
  path.make = make_path;
  path.destroy = free;
  path.pick = FAULT == null_pick ? NULL : pick_last;
  path.on_feedback = ignore_feedback;
  table.struct_size = FAULT == small_table ? 8 : FAULT == huge_table ? (size_t)1 << 40 : sizeof table;
  table.version = FAULT == wrong_version ? 2 : SPINDRIFT_PLUGIN_VERSION;
  table.congestion_control_count = FAULT == no_parts ? 0 : FAULT == twice ? 2 : 1;
  if (FAULT == null_part) ccs[0] = NULL;
  table.congestion_controls = FAULT == no_list ? NULL : ccs;
  table.path_selector_count = FAULT == no_parts ? 0 : 1;
  table.path_selectors = paths;
}

#define NO_SYMBOL_no_symbol 1
#define NAMED_(fault) NO_SYMBOL_##fault
#define NAMED(fault) NAMED_(fault)
#if NAMED(FAULT)
const spindrift_plugin_table* another_name(void);
const spindrift_plugin_table* another_name(void) {
#else
const spindrift_plugin_table* spindrift_plugin_v1(void) {
#endif
  fill();
  return FAULT == no_table ? NULL : &table;
}
