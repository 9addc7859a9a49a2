package belay

import (
	"os"
	"os/signal"
	"syscall"
)

// listen obeys these signals until end is called.
func (p Process) listen(stop func(), which ...os.Signal) (end func()) {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, which...)
	done := make(chan struct{})
	log := p.Server.book.Logger()
	go func() {
		defer close(done)
		stopping := false
		for sig := range signals {
			log.Info().Str("signal", signalNames[sig]).Msg("obeying")
			switch sig {
			case syscall.SIGTERM, os.Interrupt:
				// The first one ends the context, and with it whatever else of the program hangs on that.
				if !stopping {
					stop()
				} else {
					p.Server.Stop()
				}
				stopping = true
			default:
				p.obey(sig)
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		<-done
	}
}
