/* Makes a model follow a trace: a file of lines with five numbers, kind, side and three values, of what the program did.
 *
 * Each action of a model that a trace can show stands as
 *
 *   :: atomic { <guard> && SEEN(kind, side, a, b, c) -> <what it does>; NEXT }
 *
 * Without -DTRACE both mean nothing, and the model is free to take any action whose guard holds. With it an action is only
 * possible if it is the next line of the file named by the environment variable TRACE_FILE. The trace is accepted as soon as
 * its last line was taken: the program then ends with status 0 and the line "trace: accepted N". The first active process
 * calls TRACE_BEGIN before all else. Actions without SEEN stay free. */
#ifdef TRACE
c_decl {
  #define TRACE_LINES_MAX (1 << 20)
  static int trace_lines[TRACE_LINES_MAX + 1][5], trace_length = -1, trace_most = 0;
  static void trace_report(void) { printf("trace: %d of %d lines were possible\n", trace_most, trace_length); }
  static void trace_read(void) {
    const char *name = getenv("TRACE_FILE");
    FILE *file = name ? fopen(name, "r") : NULL;
    int *line = trace_lines[0];
    for (trace_length = 0; file && trace_length < TRACE_LINES_MAX; ++trace_length, line += 5)
      if (fscanf(file, "%d %d %d %d %d", line, line + 1, line + 2, line + 3, line + 4) != 5) break;
    if (trace_length == 0 || !feof(file)) { printf("trace: %s is no trace\n", name ? name : "(none)"); exit(3); }
    fclose(file);
    atexit(trace_report);
  }
};
int t_at = 0, t_kind = 0, t_side = 0, t_a = 0, t_b = 0, t_c = 0;
c_code {
  static void trace_step(int by) {
    const int *line;
    if (trace_length < 0) trace_read();
    now.t_at += by;
    if (now.t_at > trace_most) trace_most = now.t_at;
    if (now.t_at == trace_length) { printf("trace: accepted %d\n", trace_length); exit(0); }
    line = trace_lines[now.t_at];
    now.t_kind = line[0]; now.t_side = line[1]; now.t_a = line[2]; now.t_b = line[3]; now.t_c = line[4];
  }
};
/* What must hold is a condition of the step here: a trace is refused where it does not. */
#define assert(what) (what)
#define SEEN(kind, side, a, b, c) (t_kind == (kind) && t_side == (side) && t_a == (a) && t_b == (b) && t_c == (c))
#define TRACE_BEGIN c_code { trace_step(0); }
#define NEXT c_code { trace_step(1); }
#else
#define SEEN(kind, side, a, b, c) true
#define TRACE_BEGIN skip
#define NEXT skip
#endif
